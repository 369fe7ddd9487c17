#!/usr/bin/perl

# The machine of Redis stands still together with its clock, while workers admit
# their shares. The first one that comes back is new: a reload has started it
# meanwhile, or it succeeds a killed one, or it has another name, as it was
# removed. It says for how long its node had no reply: nothing is granted until
# the others have declared.

use lib 't/lib';
use Cpanel::JSON::XS qw(decode_json);
use Dsem::Clock;
use Dsem::Test;

# s
my $LEASE = 3600;

my $t = Dsem::Test->new(lease => $LEASE);
my $wall = Dsem::Clock->new($t);
my $clock = Dsem::Clock->new($t, monotonic => 1, name => 'monotonic');
my $redis = $wall->redis;
my $up = $t->upstream;
my @proxies = map { $t->proxy($redis->address) } 1 .. 3;

my $conf = <<'EOF_CONF';
worker_processes 1;
dsem_lease 1h;
dsem_reuse off;
dsem_redis_connect_timeout 300ms;
location / {
    dsem api limit=4 queue=10 timeout=3h;
    proxy_read_timeout 3h;
    proxy_pass http://%%UPSTREAM%%;
}
location /dsem/ {
    dsem_api write=on;
}
EOF_CONF
my @nodes = map {
    $clock->node("n$_", $conf, REDIS => $proxies[$_]->address)
} 0 .. 2;
my ($a, $b, $new) = @nodes;

# of the third node
sub sessions { return sort grep { /^n2:/ } $t->state->sessions }

# before the outage, and in it; the worker's old name must be gone
sub removed {
    my ($session) = sessions();
    $new->freeze;
    my $reply = $a->get("/dsem/sessions/$session", -method => 'DELETE',
        'Content-Type' => 'application/json', -body => '{"force": true}');
    # nginx waits for the client otherwise
    $reply->close;
    is $reply->status, 200, 'the session is removed';
}

sub replaced {
    my ($how) = @_;
    my ($pid) = $new->workers;
    $how eq 'reload' ? $new->reload : $new->kill_worker($pid);
    wait_for { !grep { $_ == $pid } $new->workers } 15, 'another worker';
}

sub served {
    my (@runs) = @_;
    wait_for { $up->release_all; $_->done } 15, 'the end' for @runs;
    is $_->wait->status, 200, 'served' for @runs;
}

sub outage {
    my ($how) = @_;
    note $how;
    wait_for { $t->state->session_count == 3 } 15, 'three sessions';
    for (1 .. 3) {
        # it counts what the last heartbeat replied
        $_->step($LEASE / 4) for $wall, $clock;
        $redis->all_beat(3);
    }
    # each has had permits
    served(map { my $node = $_; map { $node->begin('/?hang=1') } 1, 2 } $a, $b);
    wait_for { ($t->state->counts('api') // '') =~ /^(0 0)?$/ } 15, 'released';
    $_->clear_logs for @nodes;
    my ($before) = sessions();
    removed() if $how eq 'removed';
    for my $proxy (@proxies) {
        $proxy->refuse;
        $proxy->cut;
    }
    $new->thaw if $how eq 'removed';
    for my $node (@nodes) {
        wait_for { $node->grep_log(qr/unavailable \(/) } 15, 'an outage';
    }

    # that of Redis stands still
    $clock->step($LEASE + 2);
    my @runs = map { $_->begin('/?hang=1') } $a, $b;
    wait_for { $up->now == 2 } 15, 'each admits its share';
    replaced($how) if $how ne 'removed';
    $proxies[2]->refuse(0);
    wait_for { grep { $_ ne $before } sessions() } 15, 'the new session';
    ok $redis->recovering, 'nothing is granted yet';
    push @runs, map { $new->begin('/?hang=1') } 1 .. 4;
    wait_for {
        decode_json($new->get('/dsem/semaphores/api')->body)
            ->{semaphore}{local}{waiting} == 4
    } 15, 'four wait';

    for ([$a, $proxies[0]], [$b, $proxies[1]]) {
        my ($node, $proxy) = @$_;
        $proxy->refuse(0);
        wait_for { $node->grep_log(qr/available again/) } 15, 'Redis again';
    }
    $_->step($LEASE / 4) for $wall, $clock;
    wait_for { !$redis->recovering } 15, 'the end of the pause';
    eventually { $t->state->counts('api') eq '4 2' } 'two wait on';
    wait_for { $up->now == 4 } 15, 'four at the backend';
    is $up->peak, 4, "$how: the limit";
    is scalar(map { $_->grep_log(qr/overage/) } @nodes), 0, 'no overage';
    served(@runs);
}

outage($_) for qw(reload killed removed);

$t->done;
