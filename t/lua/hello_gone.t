#!/usr/bin/perl

# A session is barred for one lease after its bye, sent by itself or by another
# session: a late hello of a killed worker must not enter.

use lib 't/lib';
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;
my $one = $scripts->session('one')->enter;
my $two = $scripts->session('two')->enter;

is $two->bye($one)->{status}, 'ok', 'bye for another';
is $one->hello->{status}, 'gone', 'late hello barred';
is $one->beat->{status}, 'resync', 'beat refused';
is $one->ask('api', 1), 'resync', 'ask refused';
is $two->beat->{live}, 1, 'one session left';

# another bye prolongs the bar
$scripts->advance(4000);
$two->beat;
$two->bye($one);
$scripts->advance(4000);
$two->beat;
is $one->hello->{status}, 'gone', 'bar prolonged';

$scripts->advance(1500);
is $one->hello->{status}, 'ok', 'bar over';
is $one->declared->{status}, 'ok', 'declared after the bar';

# own bye of a session that is no longer registered
is $one->bye->{status}, 'ok', 'own bye';
is $one->bye->{status}, 'ok', 'own bye again';
is $scripts->session('three')->bye($two)->{status}, 'ok', 'bye of a stranger';
