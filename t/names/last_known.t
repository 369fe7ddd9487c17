#!/usr/bin/perl

# A name is not resolved any more: its last known addresses are used, which is
# logged once. Redis stays available, also where the name server is silent.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $port = $redis->port;
my $up = $t->upstream;
my $dns = $t->dns('redis.dsem.test' => [ '127.0.0.1' ]);

my $node = $t->node('a', <<'EOF_CONF', REDIS_PORT => $port);
worker_processes 1;
dsem_redis redis.dsem.test:%%REDIS_PORT%%;
dsem_redis_connect_timeout 2s;
resolver %%DNS%%;
server {
    listen 127.0.0.1:%%PORT%%;
    add_header X-Status $dsem_status;
    location /limited {
        dsem api limit=5 queue=5;
        dsem_reuse off;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /plain {
        proxy_pass http://%%UPSTREAM%%;
    }
}
EOF_CONF

eventually { $node->grep_log(qr/connected to redis 127\.0\.0\.1:$port /) }
    'connected';

# connections of the worker, by number: a new one has a new number
sub client {
    return join ' ', $redis->cmd(qw(CLIENT LIST))
        =~ /^id=(\d+) .* name=dsem-a-\S*(?<!-messages) /mg;
}

sub lost {
    my ($before, $began, $slowest) = (client(), now, 0);
    $redis->client_kill;
    wait_for {
        my $latency = $node->get('/plain?t=1')->took;
        $slowest = $latency if $latency > $slowest;
        client() ne '' && client() ne $before;
    } 15, 'new connection';
    return (took($began), $slowest);
}

sub warned {
    my ($reason) = @_;
    return scalar($node->grep_log(qr/\[warn\] .* dsem: redis host "redis\.dsem\.test" not resolved \($reason\), its last known addresses are used/));
}

sub noticed { scalar($node->grep_log(qr/host "redis.dsem.test" resolved again/)) }

for (
    [ 'no such name', sub { $dns->set('redis.dsem.test') },
        sub { $dns->set('redis.dsem.test', '127.0.0.1') }, 'Host not found' ],
    [ 'silence', sub { $dns->silent }, sub { $dns->silent(0) },
        'Operation timed out' ],
) {
    my ($how, $go, $come, $reason) = @$_;
    $node->clear_logs;
    $go->();
    # nginx keeps an answer until its second is over
    my $asked = now;
    wait_for { now > $asked + 1.1 } 15, 'answer out of date';
    for my $time ('first', 'second') {
        my ($took, $slowest) = lost();
        cmp_ok $took, '<', 1.8, "$how, $time time: connected in time";
        # a question that blocks the worker would take five seconds
        cmp_ok $slowest, '<', 1.5, "$how, $time time: other requests served";
        note sprintf '%s: connected in %.3f s, requests in %.3f s', $how,
            $took, $slowest;
        is $node->get('/limited?t=1')->header('X-Status'), 'PASSED',
            "$how, $time time: permit granted";
        is warned($reason), 1, "$how, $time time: logged once";
    }
    is noticed(), 0, "$how: not resolved yet";
    $come->();
    lost();
    is noticed(), 1, "$how: resolved again";
    ok !$node->grep_log(qr/unavailable \(/), "$how: never unavailable";
}

$t->done;
