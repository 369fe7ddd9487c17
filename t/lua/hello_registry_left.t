#!/usr/bin/perl

# When only the hash with generation and clock is lost, leases of the old clock
# are void. Otherwise dead sessions would live as long as the old clock had
# run.

use lib 't/lib';
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;
my $one = $scripts->session('one')->enter;
$scripts->advance(1_000_000);
$one->enter;
my $two = $scripts->session('two')->enter;

is $one->beat->{live}, 2, 'two sessions live';
cmp_ok $scripts->state->lease_end($two->name), '>', 1_000_000,
    'leases of a clock that ran long';
$scripts->state->delete_shard;

is $one->ask('api', 1), 'resync', 'ask without generation refused';
is $one->declare('api', held => 1)->{status}, 'resync', 'declare refused';
is $one->beat->{status}, 'resync', 'beat refused';

is $one->hello->{recovery}, 5000, 'state counted as lost';
is $one->{gen}, $scripts->meta('gen'), 'new generation';
is $scripts->state->session_count, 1, 'registry rebuilt';
cmp_ok $scripts->state->lease_end($one->name), '<', 10_000,
    'lease of the new clock';
is $one->beat->{live}, 2, 'missing session counted';
is $two->beat->{status}, 'resync', 'other session rejected';
