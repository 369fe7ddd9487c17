#!/usr/bin/perl

# nginx is stopped at once, with requests running and waiting. Workers send bye
# before they exit, so that their sessions are gone with them. They wait for
# the reply, but not for long where Redis does not reply.

use lib 't/lib';
use Dsem::Test;

# delay of a busy machine
my ($BYE, $NOISE) = (0.15, 1.5);

my $t = Dsem::Test->new(lease => 60);
my $redis = $t->redis;
my $up = $t->upstream;

my $conf = <<'EOF_CONF';
worker_processes 2;
dsem_lease 1m;
location /stopped {
    dsem api limit=20 queue=100 timeout=20s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

sub sessions {
    my ($node) = @_;
    return grep { /^$node:/ } $t->state->sessions;
}

sub waiting { $t->state->waiting('api') }

# stops a node with 20 requests running and 5 waiting; returns the time, and that
# without the stalls of the machine
sub stop {
    my ($node) = @_;
    my @requests = map { $node->begin('/stopped?hang=1') } 1 .. 20;
    eventually { $up->now == 20 } $node->name . ': all permits out';
    push @requests, map { $node->begin('/stopped?hang=1') } 1 .. 5;
    eventually { waiting() == 5 } $node->name . ': five wait';
    return sub {
        my $told = now;
        $node->signal('TERM');
        wait_for { !$node->alive } 15, 'the end';
        my @took = (now - $told, took($told));
        # their clients have waited as long
        @requests = ();
        return @took;
    };
}

my $other = $t->node('other', $conf);

# the sessions are gone, and nothing is held

my $node = $t->node('a', $conf);
my $end = stop($node);
my (undef, $took) = $end->();
eventually { sessions('a') == 0 } 'sessions removed';
my ($asked, $started) = (now, $up->started);
my @all = map { $other->begin('/stopped?hang=1') } 1 .. 20;
# the backend may not have noticed yet that the others are gone
eventually { $up->started == $started + 20 && $up->now == 20 }
    'all permits returned';
cmp_ok took($asked), '<', $NOISE, 'permits returned at once';
cmp_ok $took, '<', $BYE + $NOISE, 'nginx gone at once';
$up->release_all;
is scalar(grep { $_->wait->status != 200 } @all), 0, 'served on other node';
note sprintf 'redis there: %.3f s', $took;

# Redis does not reply: not at all, or not at first

my ($frozen, $all_of_it);
for my $name (qw(b1 b2 b3)) {
    $node = $t->node($name, $conf);
    $end = stop($node);
    $redis->freeze;
    ($all_of_it, $frozen) = $end->();
    $redis->thaw;
    eventually { sessions($name) == 0 } 'bye executed after thaw';
    last if $frozen < 0.5;
}
cmp_ok $frozen, '<', 0.5, 'exit without a reply';
cmp_ok $all_of_it, '>', $BYE - 0.05, 'reply awaited before exit';
my $after = $other->begin('/stopped?t=1');
is $after->wait->status, 200, 'permits returned';
note sprintf 'redis frozen: %.3f s', $frozen;

# Redis is known to be unavailable: no wait

my $proxy = $t->proxy($redis->address);
# a lost Redis is awaited for so long
$node = $t->node('c',
    $conf =~ s/(dsem_lease)/dsem_redis_connect_timeout 1s; $1/r,
    REDIS => $proxy->address);
$end = stop($node);
$proxy->refuse;
$proxy->cut;
eventually { $node->grep_log(qr/unavailable \(/) == 2 } 'redis unavailable';
(undef, $took) = $end->();
cmp_ok $took, '<', $NOISE, 'nginx gone at once';
note sprintf 'redis away: %.3f s', $took;
$after = $other->begin('/stopped?t=1');
eventually { waiting() > 0 } 'permits not returned';
$t->state->lapse(sessions('c'));
is $after->wait->status, 200, 'released by lease expiry';
is $up->peak, 20, 'limit reached, never exceeded';

$t->done;
