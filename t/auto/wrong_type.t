#!/usr/bin/perl

# A foreign key in the place of what is kept of a limit: the limit stays as it
# is, and each worker says so once; nothing else of the semaphore is concerned.

use lib 't/lib';
use Dsem::Clock;
use Dsem::Test;

my $t = Dsem::Test->new(lease => 60);
my $clock = Dsem::Clock->new($t, monotonic => 1);
my $redis = $t->redis;
my $up = $t->upstream;
my $key = 'dsem:{0}:a:api';

$redis->cmd('SET', $key, 'mine');
my $node = $clock->node('a', <<'EOF_CONF');
worker_processes 1;
dsem_lease 60s;
dsem_redis_timeout 30s;
location /kept {
    dsem api limit=auto max=100 queue=200 timeout=30s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

# Samples have found a key of another type.
sub samples { return $redis->calls->{hget} // 0 }

sub told {
    return $node->grep_log(
        qr/\[error\].*semaphore "api" stays as it is \(key "\Q$key\E" in redis/);
}

my $load = $t->load_start(clients => 30, seconds => 600,
    urls => [ $node->url('/kept?t=20') ]);
eventually { told() } 'logged';
# two more samples, of which the worker sends one in two seconds
for my $n (1, 2) {
    my $samples = samples();
    $clock->step(2);
    wait_for { samples() > $samples } 15, "sample $n";
}
is $redis->cmd('GET', $key), 'mine', 'key not touched';
is $t->state->lowest_limit('api'), 10, 'limit as at the start';

$redis->cmd('DEL', $key);
$clock->step(2);
eventually { $t->state->lowest_limit('api') > 10 } 'key gone: limit moves', 30;
my $result = $load->stop->wait;
is_deeply [ keys %{ $result->{statuses} } ], [200], 'all requests served'
    or diag explain $result->{statuses};
is told(), 1, 'logged once';

$t->done;
