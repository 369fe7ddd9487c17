#!/usr/bin/perl

# names counts the live sessions of each node, and says when the last of them
# gave a heartbeat: in steps, however many sessions there are, and with no more
# in one than with a few.

use lib 't/lib';
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;
my $state = $scripts->state;
my $redis = $scripts->redis;
my $clock = sub { $scripts->meta('clock') };

my $one = $scripts->session('one')->enter;
is_deeply $one->names->{nodes}, { one => '1 0' }, 'one session';
my ($gone) = map { $scripts->session('gone')->enter } 1;
$scripts->session('one')->enter;
$one->bye($gone);
like $one->names->{nodes}{one}, qr/^2 \d+$/, 'two sessions';
is_deeply [ keys %{ $one->names->{nodes} } ], ['one'],
    'none of a session that has left';

# entries: lease 5000, so much of it is left
my $n = 0;
sub enter_many {
    my ($node, $count, $left) = @_;
    my $ends = $clock->() + $left;
    $redis->cmd('HSET', $state->key, map {
        $n++;
        (sprintf('%s:%d:%x', $node, $n % 8, $n) => "1 1 5000 $ends abc -")
    } 1 .. $count);
}
enter_many('quiet', 1, 4000);
enter_many('quiet', 1, 3000);
enter_many('dead', 1, 0);
my $nodes = $one->names->{nodes};
is $nodes->{quiet}, '2 1000', 'time since the last heartbeat';
is $nodes->{dead}, undef, 'none whose lease has ended';
# whichever of them a step reads first
my @quiet = grep { /^quiet:/ } @{ $redis->cmd('HKEYS', $state->key) };
for my $last (@quiet) {
    $redis->cmd('HSET', $state->key, map {
        ($_ => sprintf '1 1 5000 %.0f abc -',
            $clock->() + ($_ eq $last ? 4000 : 3000))
    } @quiet);
    is $one->names->{nodes}{quiet}, '2 1000', "the last one: $last";
}

# a large fleet

enter_many("n$_", 100, 5000) for 1 .. 100;
my ($cursor, $steps, $most, $slow, %sessions) = (0, 0, 0, 0);
# none expires meanwhile, by a clock that does not stand still
$redis->cmd('PERSIST', $_) for $scripts->all_keys;
my $before = $scripts->dump;
do {
    my $reply;
    my $calls = $scripts->calls(sub { $reply = $one->names($cursor) });
    my $found = 0;
    for my $node (keys %{ $reply->{nodes} }) {
        my ($count) = split ' ', $reply->{nodes}{$node};
        $sessions{$node} += $count;
        $found += $count;
    }
    $most = $found if $found > $most;
    $slow = $calls->{hscan} if $calls->{hscan} > $slow;
    $cursor = $reply->{cursor};
} while ($cursor && ++$steps < 200);
is $sessions{"n$_"}, 100, "node n$_" for 1, 50, 100;
is scalar(keys %sessions), 102, 'all nodes';
cmp_ok $most, '<', 400, 'not all in a step';
cmp_ok $slow, '<=', 4, 'few commands in a step';
is $scripts->dump, $before, 'nothing written';
