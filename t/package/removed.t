#!/usr/bin/perl

# What apt prints when the package is removed while nginx.conf still has
# directives or variables of dsem, or includes or loads its files: the files that
# do. Nothing if there are none.

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
    modules-enabled snippets));
my %text = (
    'nginx.conf' => "http {\n    # dsem is not used here; dsem a;\n"
        . "    # log_format x '\$dsem_status';\n}\n",
    'modules-enabled/90.conf' => "load_module modules/ngx_http_dsem_module.so;\n",
    'sites-available/off' => "dsem off_site limit=1;\n",
);
for my $path (keys %text) { write_to($path, $text{$path}) }

is(printed('remove'), '', 'nothing while there is no directive');
write_to('sites-available/shop', "location / {\n\tdsem shop limit=1;\n}\n");
symlink '../sites-available/shop', "$dir/sites-enabled/shop" or die "shop: $!";
write_to('conf.d/redis.conf', "dsem_redis 10.0.0.5;\n");
is(printed('remove'), 'Warning: nginx will not start again with the directives or '
    . "variables of dsem in $dir/conf.d/redis.conf $dir/sites-enabled/shop\n",
    'both files');
write_to('conf.d/redis.conf', 'server { location / { dsem shop limit=1; } }');
like(printed('remove'), qr{/redis\.conf }, 'a directive that does not begin a line');

# nginx refuses each of these without the module, also a format without a use
write_to('conf.d/redis.conf', '');
unlink "$dir/sites-enabled/shop";
my %left = (
    'a format' => [ 'conf.d/log.conf',
        "log_format main '\$status'\n    '# \$dsem_status';\n" ],
    'braces' => [ 'nginx.conf', "http { map x\${dsem_limit} \$y { } }\n" ],
    'a header' => [ 'snippets/x.conf',
        "add_header X-Dsem-Status \$dsem_status always;\n" ],
    'a directive in a snippet' => [ 'snippets/x.conf', "dsem shop limit=1;\n" ],
    'a file of the package' => [ 'nginx.conf', "http {\n    include "
        . "/usr/share/libnginx-mod-http-dsem/monitoring/dsem.log.conf;\n}\n" ],
    'a copy of it' => [ 'nginx.conf', "http { include dsem.log.conf; }\n" ],
    'the module' => [ 'nginx.conf',
        "load_module modules/ngx_http_dsem_module.so;\n" ],
);
for my $name (sort keys %left) {
    my ($path, $text) = @{ $left{$name} };
    write_to($path, $text);
    like(printed('remove'), qr/ of dsem in \Q$dir\E\/\Q$path\E$/, $name);
    write_to($path, $text{$path} // '');
}
is(printed('remove'), '', 'nothing again');
write_to('conf.d/redis.conf', "dsem_redis 10.0.0.5;\n");
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
