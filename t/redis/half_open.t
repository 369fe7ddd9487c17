#!/usr/bin/perl

# A connection to Redis is silently dead: no bytes pass, and no side is
# notified. On either connection a worker detects this within
# dsem_redis_timeout and a heartbeat, and service continues over a new
# connection.

use lib 't/lib';
use Dsem::Test;

my ($TIMEOUT, $HEARTBEAT) = (0.5, 0.4);

my $t = Dsem::Test->new(lease => 2);
my $redis = $t->redis;
my $up = $t->upstream(service => 0.010);

# connections made while the front leads to the back can be frozen there
my $back = $t->proxy($redis->address);
my $front = $t->proxy($redis->address);

my $conf = <<'EOF_CONF';
worker_processes 1;
dsem_redis_timeout 500ms;
dsem_lease 2s;
location /goes_on {
    dsem api limit=1 queue=10 timeout=10s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

my $node = $t->node('a', $conf, REDIS => $front->address);
my $other = $t->node('b', $conf);

sub through_back {
    my ($type) = @_;
    my $accepted = $back->accepted;
    $front->retarget($back->address);
    # the other node's connections end too, and are opened again
    $redis->cmd(qw(CLIENT KILL TYPE), $type, qw(SKIPME yes));
    wait_for { $back->accepted > $accepted } 15, 'the back';
    $front->retarget($redis->address);
    wait_for { $node->get('/goes_on')->status == 200 } 15, 'service';
}

sub epoch {
    my $entries = $t->state->entries;
    my ($session) = grep { /^a:/ } keys %$entries;
    return $entries->{$session}{declared};
}

sub subscribers {
    my ($session) = grep { /^a:/ } $t->state->sessions;
    my $channel = $t->state->channel($session);
    return $redis->cmd('PUBSUB', 'NUMSUB', $channel)->[1];
}

# A permit released on the other node goes to a request waiting on this one.
sub wakes {
    my ($how) = @_;
    my @took;
    for (1 .. 4) {
        my $holder = $other->begin('/goes_on?hang=1');
        wait_for { $up->now == 1 } 15, 'a holder';
        my $waiting = $node->begin('/goes_on');
        wait_for { $t->state->waiting('api') == 1 } 15, 'a waiter';
        my $released = now;
        $up->release_all;
        is $waiting->wait->status, 200, "$how: waiter granted";
        push @took, took($released);
        $holder->wait;
    }
    my ($least) = sort { $a <=> $b } @took;
    # without a message at the next poll: after a second at most
    cmp_ok $least, '<', 0.2, "$how: granted by a message";
}

# all connections are there: only those that are killed are made through the back
wait_for { $t->state->session_count == 2 && $t->state->subscribed == 2 } 15,
    'both nodes';

# commands, idle

through_back('normal');
my ($epoch, $frozen) = (epoch(), now);
$back->freeze;
eventually { epoch() > $epoch } 'commands, idle: new connection';
cmp_ok took($frozen), '<', $TIMEOUT + $HEARTBEAT + 2,
    'commands, idle: reconnected in time';
is $node->get('/goes_on')->status, 200, 'commands, idle: request served';
wakes('commands, idle');
$back->thaw;

# commands, with a request that awaits a reply

through_back('normal');
($epoch, $frozen) = (epoch(), now);
$back->freeze;
my $asked = $node->get('/goes_on');
cmp_ok $asked->took, '<', $TIMEOUT + 2, 'commands, asked: refused in time';
eventually { epoch() > $epoch } 'commands, asked: new connection';
cmp_ok took($frozen), '<', $TIMEOUT + $HEARTBEAT + 2,
    'commands, asked: reconnected in time';
is $node->get('/goes_on')->status, 200, 'commands, asked: request served';
$back->thaw;

# messages

through_back('pubsub');
wait_for { subscribers() == 1 } 15, 'the subscription';
($epoch, $frozen) = (epoch(), now);
$back->freeze;
eventually { subscribers() == 2 } 'messages: new subscription';
cmp_ok took($frozen), '<', $TIMEOUT + 2 * $HEARTBEAT + 2,
    'messages: resubscribed in time';
is epoch(), $epoch, 'messages: command connection kept';
wakes('messages');
$back->thaw;

is $up->peak, 1, 'limit kept';

$t->done;
