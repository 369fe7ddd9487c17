#!/usr/bin/perl

# A semaphore looks at accounts of ended sessions only, by the log of the shard,
# when a request cannot be granted at once. It looks at all accounts, some per
# call, where the log does not go back far enough.

use lib 't/lib';
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;
my $one = $scripts->session('one')->enter;
my $two = $scripts->session('two')->enter;
my $state = $scripts->state;

# scans of all accounts, and by the log
sub looks {
    my ($ask) = @_;
    my $before = $state->figures('api')->{seen} // 0;
    my $calls = $scripts->calls($ask);
    return ($calls->{hscan} // 0) . ' '
        . (($state->figures('api')->{seen} // 0) - $before);
}

my $ticket = 100;
sub ask {
    my ($name, %arg) = @_;
    return looks(sub { $one->ask($name, ++$ticket, limit => 3, %arg) });
}

# ends so many sessions that hold nothing
sub strangers { $one->bye($scripts->session('stranger')) for 1 .. $_[0] }

like looks(sub { $two->ask('api', 1, limit => 3) }), qr{^0 },
    'no scan at first';
strangers(2);
is ask('api'), '0 2', 'two ended sessions looked at';
is ask('api', weight => 2), '0 0', 'not a second time';
strangers(1);
is looks(sub { $one->sync('api', check => [ [$ticket, 2] ]) }), '0 1',
    'one more at next check';
strangers(1);
is looks(sub { $one->sync('api', release => 1) }), '0 1', 'one while waiting';

# first declarations end nothing
my $ended = $scripts->meta('ended');
my $three = $scripts->session('three')->enter;
is $scripts->meta('ended'), $ended, 'first epoch not logged';
$three->enter;
is $scripts->meta('ended'), $ended + 1, 'second epoch logged';

# a permit of an ended session is found by the log
$three->ask('web', 1, limit => 1);
strangers(250);
$one->bye($three);
is $one->ask('web', 2, limit => 1), 'queued', 'log not read at once';
is $one->{asked}{more}, 1, 'rest is left';
is_deeply $one->sync_all('web', 20)->{granted}, [2], 'permit found';
is $one->sync('web')->{more}, 0, 'nothing left';

# the log does not go back far enough
$two->ask('old', 1, limit => 1);
strangers(600);
$one->bye($two);
is scalar(grep { /^ended:/ } @{ $scripts->redis->cmd('HKEYS', $state->key) }),
    512, 'log is trimmed';
my $calls = $scripts->calls(sub {
    is $one->ask('old', 2, limit => 1), 'granted', 'permit found by a scan';
});
is $calls->{hscan}, 1, 'few accounts: one call';
is $state->figures('old')->{seen}, $scripts->meta('ended'), 'all looked at';

# a cursor of a state that was lost, and no account at all
my $key = $state->semaphore_key('api');
for my $what ('cursor', 'account') {
    $state->set_figure('api', seen => $scripts->meta('ended') + 1);
    $scripts->redis->cmd('HSET', $key, scan => '5 ' . 2 ** 49);
    $scripts->redis->cmd('HDEL', $key, keys %{ $state->accounts('api') })
        if $what eq 'account';
    is $one->sync('api', limit => 3)->{status}, 'ok', "$what: scanned";
    is $state->figures('api')->{seen}, $scripts->meta('ended'),
        "$what: all looked at";
}
