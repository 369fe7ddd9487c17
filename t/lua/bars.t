#!/usr/bin/perl

# The bar of a removed session is deleted when it has ended, by the next beat of
# any session.

use lib 't/lib';
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;
my $one = $scripts->session('one')->enter;
my @gone = map { $scripts->session("gone$_")->enter } 1 .. 3;

sub barred {
    return scalar grep { $_->{bar} } values %{ $scripts->state->entries };
}

$one->bye($gone[0]);
$scripts->advance(2500);
$one->beat;
$one->bye($gone[1]);
is barred(), 2, 'two barred';

$scripts->advance(2600);
$one->beat;
is barred(), 1, 'first bar over';

$scripts->advance(2600);
is $gone[1]->hello->{status}, 'ok', 'expired bar ignored';
$one->beat;
is $gone[1]->beat->{status}, 'ok', 'session stays registered';

$one->bye($gone[1]);
$one->beat;
$scripts->advance(2600);
$one->bye($gone[1]);
$scripts->advance(2600);
$one->beat;
is barred(), 1, 'prolonged bar kept';

$scripts->advance(2600);
$one->beat;
is barred(), 0, 'all bars over';
is $scripts->meta('first_bar'), 0, 'no bar counted';
is_deeply [ grep { /^bar:/ }
    @{ $scripts->redis->cmd('HKEYS', $scripts->state->key) } ], [],
    'no field left';

# a bar of an hour keeps no later ones, be they many or few
my $slow = $scripts->session('slow');
$slow->{lease} = 3_600_000;
$slow->enter->bye;
for my $others (3, 250) {
    $one->bye($scripts->session('gone')) for 1 .. $others;
    $scripts->pass(9000, $one);
    is barred(), 1, "long bar and $others others: one left";
    is $slow->hello->{status}, 'gone', 'long bar in force';
}
$scripts->advance(3_600_000);
$one->enter->beat for 1, 2;
is barred(), 0, 'long bar over';
is $scripts->meta('first_bar'), 0, 'no bar counted';
