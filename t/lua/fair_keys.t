#!/usr/bin/perl

# Tags are bounded by what waits, whatever keys clients send; and new keys do
# not keep older tickets waiting for ever.

use lib 't/lib';
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;
my $state = $scripts->state;
my $redis = $scripts->redis;
my $one = $scripts->session('one')->enter;
my ($ticket, $most) = (0, 0);

sub ask {
    my ($key, %arg) = @_;
    return $one->sync('api', ask => [ [ ++$ticket, 1, 0, 100, 1e6, $key ] ],
        %arg);
}

ask('x');
ask('old') for 1 .. 10;
my @old = 2 .. 11;
my $waits = 1;
for my $n (1 .. 2000) {
    my $reply = ask("key-$n", $n > 8 ? (release => 1) : ());
    my $keys = $redis->cmd('ZCARD', $state->fair_key('api'));
    $most = $keys if $keys > $most;
    die 'not granted' if $n > 8 && @{ $reply->{granted} } != 1;
    $waits = $n if grep { $_ == 11 } @{ $reply->{granted} };
}
is $state->waiting('api'), 18, 'a queue of 18';
cmp_ok $most, '<=', 2 * 18 + 1024 + 16, 'tags bounded';
cmp_ok $waits, '>', 1, "old tickets served, the last one after $waits";
cmp_ok $waits, '<=', 2000, 'in time';

# a long queue of other keys, which gets shorter again
$one->sync('api', fair => 1, limit => 1, ask => [ map {
    [ ++$ticket, 1, 0, 1000, 1000, "more-$ticket" ] } 1 .. 120 ]) for 1 .. 5;
cmp_ok $redis->cmd('ZCARD', $state->fair_key('api')), '>', 600, 'many keys';
$one->sync('api', fair => 1, release => 1) for 1 .. 590;
my ($last, $many) = ($ticket, $redis->cmd('ZCARD', $state->fair_key('api')));
ask('more-' . ($last - $_), release => 1) for 1 .. 60;
cmp_ok $redis->cmd('ZCARD', $state->fair_key('api')), '<=', $many - 64,
    'fewer keys, without new ones';
ask("last-$_", release => 1) for 1 .. 400;
cmp_ok $redis->cmd('ZCARD', $state->fair_key('api')), '<=',
    2 * $state->waiting('api') + 1024 + 16, 'few keys again';

# credits go with their keys
$one->sync('api', fair => 1, release => 1, cancel => [
    map { [ (split)[2], 1, 1000, (split)[4] ] } $scripts->queue('api') ]);
is $redis->cmd('EXISTS', $state->fair_key('api')), 0, 'no tags left';
