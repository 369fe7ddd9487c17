#!/usr/bin/perl

# The borders between the floors of the module, and the form of what is
# written: whatever a grep can keep.

use warnings;
use strict;

use Test::More;

use FindBin;

my $root = "$FindBin::Bin/../..";

# floor => files without ngx_http_dsem_; includes point downwards only
my @FLOORS = (
    [qw(patience output guard hiredis scripts)],
    [qw(call redis breaker subscription name)],
    [qw(session talk goodbye identity lease linger fallback pace stats zone)],
    [qw(semaphore account idle ticket tell local sync sync_reply
        declare)],
    [qw(conf conf_check conf_line conf_value request body subrequest verdict
        suspend release refusal wants variables api)],
    [qw(module)],
);
my %floor = map { my $n = $_; map { $_ => $n } @{ $FLOORS[$n] } } 0 .. $#FLOORS;

my %TOP = map { $_ => 1 } qw(config conf.example ngx_module lua t README.md
    Makefile LICENSE CHANGELOG.md .ci debian), qw(.git .gitignore build);

sub slurp {
    my ($path) = @_;
    open my $fh, '<', $path or die "$path: $!";
    local $/;
    return <$fh>;
}

# path => text
my %c = map { m{/ngx_http_dsem_([^/]*)$} => slurp($_) }
    glob "$root/ngx_module/*.[ch]";
my %lua = map { $_ => slurp($_) }
    glob "$root/lua/*.lua $root/lua/include/*.lua";
my %perl = map { $_ => slurp($_) } glob "$root/t/*/*.t $root/t/*/*.p[lm] "
    . "$root/t/lib/Dsem/*.pm $root/t/lib/Dsem/*/*.pm $root/t/*/*/*.pm";
cmp_ok scalar(keys %c), '>', 20, 'module found';
cmp_ok scalar(keys %lua), '>', 8, 'scripts found';
cmp_ok scalar(keys %perl), '>', 20, 'tests found';

sub none {
    my ($name, @wrong) = @_;
    is scalar(@wrong), 0, $name or diag join "\n", @wrong;
}

# Lines of these files that match, as "file: line".
sub lines {
    my ($re, %text) = @_;
    return map {
        my $file = $_;
        map { $file =~ s{.*/}{}r . ": $_" } grep { /$re/ } split /\n/,
            $text{$file};
    } sort keys %text;
}

sub floor_of { $floor{ $_[0] } // $floor{ $_[0] =~ s/\.[ch]$//r } }

none('every file has its floor', grep { !defined floor_of($_) } sort keys %c);

# comments may speak of what the code must not know
my %code = map { $_ => $c{$_} =~ s{/\*.*?\*/}{}gsr } keys %c;

# module.h only names the module, for those who look up its configuration
$floor{'module.h'} = 4;

none('includes point downwards', map {
    my $file = $_;
    map { "$file: $_" } grep { (floor_of($_) // 9) > floor_of($file) }
        $code{$file} =~ /^#include "ngx_http_dsem_([^"]+)"/mg;
} sort keys %code);

my %upper = map { $_ => $code{$_} } grep { floor_of($_) > 1 } keys %code;
my %lower = map { $_ => $code{$_} } grep { floor_of($_) < 4 } keys %code;
none('hiredis on floors 0 and 1',
    lines(qr/hiredis\/|dsem_hiredis|\bredis(?:Reply|Reader|Async)/, %upper));
none('requests on floors 4 and 5',
    lines(qr/ngx_http_request_t|<ngx_http\.h>/, %lower));
none('workers do not assert', lines(qr/\bassert\s*\(/, %code));

none('every .c opens with a room comment', grep {
    /\.c$/ && $c{$_} !~ m{\A\n/\*\n( \* \S[^\n]*\n)+ \*\n( \*[^\n]*\n)+ \*/\n}
} sort keys %c);
none('every .lua opens with what it is', grep {
    $lua{$_} !~ /\A-- \S/
} sort keys %lua);

none('no tabs', lines(qr/\t/, %c, %lua, %perl));
none('80 columns', lines(qr/^.{81}/, %c, %lua));
none('no trailing blanks', lines(qr/[ \t]+$/, %c, %lua, %perl));
none('one newline at the end', grep {
    my %all = (%c, %lua, %perl);
    $all{$_} !~ /[^\n]\n\z/;
} sort keys %c, keys %lua, keys %perl);

opendir my $dir, $root or die "$root: $!";
none('nothing else at the top',
    grep { !$TOP{$_} && !/^\.\.?$/ } sort readdir $dir);
none('nothing generated beside the sources', grep { !/\.[ch]$/ }
    glob "$root/ngx_module/*");

done_testing();
