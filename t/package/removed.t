#!/usr/bin/perl

# What apt prints when the package is removed while nginx.conf still has
# directives of dsem: the files that have them. Nothing if there are none.

use warnings;
use strict;

use Test::More;

use FindBin;

use Cwd qw(abs_path);
use File::Path qw(make_path remove_tree);

my $root = abs_path("$FindBin::Bin/../..");
my $dir = "$root/build/t/package/removed";
my $script = "$root/debian/libnginx-mod-http-dsem.prerm";

remove_tree($dir);
make_path(map { "$dir/$_" } qw(conf.d sites-available sites-enabled
    modules-enabled));
my %text = (
    'nginx.conf' => "http {\n    # dsem is not used here; dsem a;\n}\n",
    'modules-enabled/90.conf' => "load_module modules/ngx_http_dsem_module.so;\n",
    'sites-available/off' => "dsem off_site limit=1;\n",
);
for my $path (keys %text) { write_to($path, $text{$path}) }

is(printed('remove'), '', 'nothing while there is no directive');
write_to('sites-available/shop', "location / {\n\tdsem shop limit=1;\n}\n");
symlink '../sites-available/shop', "$dir/sites-enabled/shop" or die "shop: $!";
write_to('conf.d/redis.conf', "dsem_redis 10.0.0.5;\n");
is(printed('remove'), 'Warning: nginx will not start again with the directives '
    . "of dsem in $dir/conf.d/redis.conf $dir/sites-enabled/shop\n", 'both files');
write_to('conf.d/redis.conf', 'server { location / { dsem shop limit=1; } }');
like(printed('remove'), qr{/redis\.conf }, 'a directive that does not begin a line');
is(printed('upgrade'), '', 'nothing at an upgrade');
remove_tree($dir);
is(printed('remove'), '', 'nothing without nginx');

done_testing();

sub write_to {
    my ($path, $text) = @_;
    open my $fh, '>', "$dir/$path" or die "$path: $!";
    print $fh $text;
    close $fh or die "$path: $!";
}

sub printed {
    my ($action) = @_;
    my $said = qx(DSEM_NGINX=$dir sh $script $action 2>&1);
    is($?, 0, "$action succeeds");
    return $said;
}
