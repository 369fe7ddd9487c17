#!/usr/bin/perl

# make bench-instructions counts: every line adds up, and what asks Redis
# executes more than what does not. The figures themselves are no matter here;
# four of the eight lines do, but in the long profile.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Dsem::Bench qw(said);

plan skip_all => 'valgrind is not there, make bench-instructions installs it'
    unless -e '/usr/bin/callgrind_control';

local $ENV{REQUESTS} = 100;
# not capped; free, queued, and the API
my @lines = $ENV{DSEM_LONG} ? 1 .. 8 : (1, 4, 5, 8);
my $said = said('instructions', @lines);

my %n;
for (split /\n/, $said) {
    my ($what, $numbers) = /^(\S.*?) {2,}([-\d, ]+)$/ or next;
    my ($all, $above, @owners) = map { tr/,//dr } split ' ', $numbers;
    $what =~ s/ +/ /g;
    $n{$what} = $all;
    my $sum = 0;
    $sum += $_ for @owners;
    cmp_ok abs($above - $sum), '<', 0.05 * $all, "$what: adds up"
        or diag $said;
}
is scalar(keys %n), @lines, 'all lines printed';
cmp_ok $n{'free dsem, no reuse'}, '>', $n{'not capped plain proxy_pass'},
    'redis calls cost instructions';
# how many syncs a free request needs depends on what runs beside it
cmp_ok $n{'queued dsem, reuse'}, '>', $n{'not capped plain proxy_pass'},
    'waiting costs instructions';

done_testing();
