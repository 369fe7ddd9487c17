#!/usr/bin/perl

# Redis loses its state while a worker with all permits is cut off from it, for
# longer than the recovery waits: others get the permits meanwhile. This overage
# is counted and logged when the worker is back. The same with a new node that
# is the first at the empty Redis, and knows no other: the recovery begins
# later than its requests. The same with a state of before the worker was
# registered, which no other one knew yet: the recovery does not wait for it.

use lib 't/lib';
use Cpanel::JSON::XS qw(decode_json);
use Dsem::Test;

my $t = Dsem::Test->new(lease => 60);

my $conf = <<'EOF_CONF';
worker_processes 1;
dsem_lease %%LEASE%%;
dsem_redis_timeout 1m;
location / {
    dsem api limit=2;
    proxy_pass http://%%UPSTREAM%%;
}
location /dsem/ {
    dsem_api;
}
EOF_CONF

sub hold {
    my ($up, $node, $now) = @_;
    my @requests = map { $node->begin('/?hang=1') } 1, 2;
    wait_for { $up->now == $now } 30, "$now at the backend";
    return @requests;
}

sub counted {
    my ($node) = @_;
    my $all = decode_json($node->get('/dsem/semaphores')->body);
    my ($row) = grep { $_->{name} eq 'api' } @{ $all->{semaphores} };
    return $row->{local}{overage};
}

# A worker is back at a Redis that has granted its permits to others.
sub back {
    my ($how, $state, $node) = @_;
    eventually { ($state->figure('api', 'held') // 0) == 4 }
        "$how: all declared";
    eventually { $node->grep_log(qr/\[warn\].*overage of 2 permits of "api"/) }
        "$how: overage logged";
    like +($node->grep_log(qr/overage/))[0],
        qr/\(redis lost its state while requests were running\)/,
        "$how: with its cause";
    # each counter is added to before the line
    is counted($node), 2, "$how: overage counted";
}

# each with a Redis of its own, as the other one's recovery is waited for

my $redis = $t->redis;
my $state = Dsem::State->new($redis);
my $up = $t->upstream;
my $proxy = $t->proxy($redis->address);
my $cut = $t->node('cut', $conf, LEASE => '2s', REDIS => $proxy->address);
my $other = $t->node('other', $conf, LEASE => '2s');
wait_for { $state->session_count == 2 } 30, 'all sessions';
$redis->all_beat(2);
my @requests = hold($up, $cut, 2);
$proxy->freeze;
$redis->empty;
wait_for { $other->grep_log(qr/recovering for at most [1-9]/) } 30, 'recovery';
wait_for { !$redis->recovering } 30, 'its end';
push @requests, hold($up, $other, 4);
$proxy->cut;
$proxy->thaw;
back('after the recovery', $state, $cut);
is scalar($cut->grep_log(qr/lost its state, and recovers no more/)), 1,
    'no recovery is logged';
is scalar($other->grep_log(qr/overage/)), 0, 'logged by one worker';

my $second = $t->redis;
my $there = Dsem::State->new($second);
my $backend = $t->upstream;
$proxy = $t->proxy($second->address);
my $old = $t->node('old', $conf, LEASE => '60s', REDIS => $proxy->address);
push @requests, hold($backend, $old, 2);
$proxy->freeze;
$second->empty;
my $new = $t->node('new', $conf, LEASE => '60s', REDIS => $second->address);
push @requests, hold($backend, $new, 4);
$proxy->cut;
$proxy->thaw;
back('a new node first', $there, $old);

my $third = $t->redis(args => [qw(--dbfilename dump.rdb)]);
my $here = Dsem::State->new($third);
my $oracle = $t->upstream;
my ($way, $other_way) = map { $t->proxy($third->address) } 1, 2;
my $knows = $t->node('knows', $conf, LEASE => '60s',
    REDIS => $other_way->address);
wait_for { $here->session_count == 1 } 30, 'one session';
$third->all_beat(1);
$third->cmd('SAVE');
$other_way->freeze;
my $fresh = $t->node('fresh', $conf, LEASE => '60s', REDIS => $way->address);
push @requests, hold($oracle, $fresh, 2);
$way->freeze;
$third->kill->start;
$other_way->cut;
$other_way->thaw;
push @requests, hold($oracle, $knows, 4);
$way->cut;
$way->thaw;
back('a state of before', $here, $fresh);

$_->release_all for $up, $backend, $oracle;
is $_->wait->status, 200, 'request served' for @requests;

$t->done;
