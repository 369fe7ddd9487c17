#!/usr/bin/perl

# An idle reload: neither the heartbeat nor the connections to Redis nor an idle
# permit delay an old worker, whether Redis replies, is unreachable or does not
# reply. The session of the old worker is removed.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $up = $t->upstream;
my $proxy = $t->proxy($redis->address);

my $node = $t->node('a', <<'EOF_CONF', REDIS => $proxy->address);
worker_processes 2;
dsem_redis_timeout 10s;
# a lost Redis is awaited for so long
dsem_redis_connect_timeout 1s;
server {
    listen 127.0.0.1:%%PORT%%;
    location /idle {
        dsem api limit=2 queue=10;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /kept {
        dsem kept limit=2 queue=10;
        dsem_reuse 60s;
        proxy_pass http://%%UPSTREAM%%;
    }
}
EOF_CONF

sub held { return $t->state->held('kept') }
sub sessions { return $t->state->sessions }
sub unavailable { return scalar $node->grep_log(qr/unavailable \(/) }

# for how long the old workers stay
sub leaves {
    my ($name) = @_;
    my %old = map { $_ => 1 } $node->workers;
    $node->reload;
    my $told = now;
    eventually { !$node->draining } "$name: old workers gone";
    cmp_ok took($told), '<', 1.5, "$name: gone at once";
    is scalar(grep { $old{$_} } $node->workers), 0,
        "$name: both workers replaced";
}

eventually { sessions() == 2 } 'two sessions';
is $node->get('/idle?t=1')->status, 200, 'request served';
is $node->get('/kept?t=1')->status, 200, 'another served';
is held(), 1, 'its permit idle';
my %before = map { $_ => 1 } sessions();

leaves('answers');
eventually { sessions() == 2 } 'available: only live sessions';
is scalar(grep { $before{$_} } sessions()), 0, 'available: all sessions new';
is held(), 0, 'available: idle permit released';

$proxy->freeze;
leaves('silent');
$proxy->thaw;

eventually { $node->get('/idle?t=1')->status == 200 } 'silent: service again';
eventually { sessions() == 2 } 'silent: only live sessions';
my $lines = unavailable();
$proxy->refuse;
$proxy->reset;
eventually { unavailable() >= $lines + 2 }
    'refused: redis unavailable';
leaves('refused');
$proxy->refuse(0);

# unsent byes were sent by the successors, or the leases have expired
eventually { sessions() == 2 } 'refused: only live sessions';
is $node->get('/idle?t=1')->status, 200, 'request served';

is scalar($node->grep_log(qr/dsem: version \d/)), 1,
    'version logged once, by no reload';

$t->done;
