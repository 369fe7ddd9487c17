#!/usr/bin/perl

# Only a hello with a higher epoch is accepted: late commands of an older
# connection do nothing.

use lib 't/lib';
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;
my $one = $scripts->session('one');

$one->enter;
is $one->hello(epoch => 1)->{status}, 'stale', 'same epoch stale';
is $one->hello(epoch => 3)->{status}, 'ok', 'higher epoch accepted';
$one->declared;

sub unclocked { return $scripts->dump =~ s/ \.=2 \d+ \K\d+ \d+//r }

my $before = unclocked();
is $one->hello(epoch => 2)->{status}, 'stale', 'lower epoch stale';
is $one->declare('api', held => 1)->{status}, 'resync', 'declare refused';
is $one->declared->{status}, 'resync', 'declared refused';
is $one->beat->{status}, 'resync', 'beat refused';
is $one->ask('api', 1), 'resync', 'ask refused';
is unclocked(), $before, 'nothing changed';

$one->{epoch} = 4;
is $one->ask('api', 1), 'resync', 'unknown epoch stale';
