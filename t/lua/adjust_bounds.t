#!/usr/bin/perl

# The number found stays within its bounds; of two live configurations within
# those of both, as far as these have anything in common.

use lib 't/lib';
use Dsem::Auto;
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;
my $state = $scripts->state;
my $redis = $scripts->redis;
my $one = $scripts->session('one')->configured('a', { api => '8=5-30' });

my $auto = Dsem::Auto->new($scripts, 'api', [ $one ]);
my $reply = $auto->run(30);
is "@$reply{qw/found reason/}", '30 bound', 'maximum';
$auto->set(latency => sub { 20 * $_[0] })->run(20);
is +(sort { $a <=> $b } ($auto->trace))[0], 5, 'never below the minimum';
cmp_ok $auto->found, '<=', 8, 'knee below the minimum';
$auto->set(latency => sub { 50 })->run(60);
is $auto->found, 30, 'maximum again';
is +(sort { $b <=> $a } ($auto->trace))[0], 30, 'never above the maximum';

# slower and slower at the minimum: that is what the backend takes
my $low = Dsem::Auto->new($scripts, 'low', [ $scripts->session('low')
    ->configured('f', { low => '20=20-20' }) ]);
$low->run(10);
my $slow = 50;
for (1 .. 6) {
    $slow *= 1.5;
    $low->set(latency => sub { $slow * $_[0] / 20 })->run(10);
}
is $low->found, 20, 'slower and slower: no other limit';
$low->run(60);
cmp_ok abs($low->run(1)->{floor} / 1000 - $slow), '<', $slow / 4,
    'floor of the minimum';

# a cut by other bounds is a change
$scripts->advance(2000);
my $lower = $scripts->session('lower')->configured('9', { api => '2=2-4' });
is $one->adjust('api')->{found}, 4, 'lowered by other bounds';
my ($last) = reverse @{ $one->inspect([ 'api' ])->{semaphores}[0]{history} };
is $last->[1], 4, 'in the history';
$lower->bye;
$one->beat;
$auto->run(20);
is $auto->found, 30, 'raised when they have gone';

# the lowest of all bounds, also before the next sample
my $two = $scripts->session('two')->configured('b', { api => '6=6-12' });
is field(), '12=5-12 a b;', 'number of the others, within its bounds';
is $one->sync('api', literal => 1)->{limit}, 12, 'lowest in force';
is $one->adjust('api')->{found}, 12, 'found: lowest';
$auto->set(latency => sub { 20 * $_[0] })->run(20);
is field(), $auto->found . '=5-12 a b;', 'moved within both';
is +(sort { $a <=> $b } ($auto->trace))[0], 5, 'not below either';
$auto->set(latency => sub { 50 })->run(20);
is $auto->found, 12, 'not above either';
my $three = $scripts->session('three')->configured('c', { api => '20=20-40' });
is field(), '12=5-12 a b c;', 'nothing in common';
is $one->sync('api', literal => 1)->{limit}, 12, 'lowest in force';
$two->bye;
$one->beat;
$auto->run(20);
is field(), '30=5-30 a c;', 'raised when it has left';
my $four = $scripts->session('four')->configured('d', { api => '7=5-30' });
is field(), '30=5-30 a c d;', 'same bounds: same number';

# plain limits of the same number
my @plain = map { $scripts->session($_)->configured($_, { api => 30 }) }
    qw(e1 e2);
is field(), '30=5-30 a c d;30 e1 e2;', 'plain limits together';
$_->bye for @plain;
$one->beat;
like field(), qr/^30=5-30 a[^;]* d;$/, 'and gone';

# of two with the same bounds one leaves, then one with lower ones
$four->bye;
$scripts->session('lower')->configured('9', { api => '2=2-4' })->bye;
$one->beat;
is field(), '5=5-30 a;', 'bounds of the one that stays';

# arguments
my $before = field();
for (
    [ 'start below', '4=5-30' ], [ 'start above', '31=5-30' ],
    [ 'bounds crossed', '5=6-4' ], [ 'too large', '5=1-1000001' ],
    [ 'no number', '5=1-x' ], [ 'no bounds', '5=' ], [ 'half', '5=1' ],
) {
    my ($what, $text) = @$_;
    my $bad = $scripts->session('bad');
    $bad->hello(config => 'e');
    is eval { $bad->configure('e', 0, 1, api => $text) }, undef, $what;
    like $@, qr/DSEM argument 9 /, "$what: named";
    $bad->bye;
}
is field(), $before, 'nothing stated';

$scripts->done;

sub field { return $redis->cmd('HGET', $state->key, 'limit:api') }
