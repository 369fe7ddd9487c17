#!/usr/bin/perl

# An argument of a command has room for the numbers that are sent in it: those
# of each list in the sources, with epoch and number where these come first.

use warnings;
use strict;

use FindBin;
use Test::More;

my $text = '';
for my $path (glob "$FindBin::Bin/../../ngx_module/*/*.[ch]") {
    open my $file, '<', $path or die "$path: $!";
    $text .= do { local $/; <$file> };
}
my ($room) = $text =~ /^#define NGX_HTTP_DSEM_RESP_NUMBERS +(\d+)$/m;
ok $room, 'defined';

# constants: the last of an enum, which is the number of those before
my %count;
for ($text =~ /^typedef enum \{\n(.*?)^\}/msg) {
    my @names = /^    (NGX_\w+)/mg;
    $count{ $names[-1] } = $#names;
}
my %sent = (
    (map { $_ => $count{$_} } $text =~ /resp_numbers\(\w+, \w+, (NGX_\w+)\)/g),
    map { $_ => 2 + $count{$_} }
        $text =~ /redis_begin_packed\([^;]*?\bvalues,\s+(NGX_\w+)/g,
);
is join(' ', sort keys %sent), join(' ', map { "NGX_HTTP_DSEM_$_" }
    qw/AUTO_NSAMPLE AUTO_NSENT SYNC_NSENT/), 'found';
cmp_ok $sent{$_}, '<=', $room, $_ for sort keys %sent;

done_testing();
