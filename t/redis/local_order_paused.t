#!/usr/bin/perl

# A pause lasts while Redis is unavailable, as far as the node has seen it: no
# worker admits its share, also one that starts in the outage. A pause that has
# ended is forgotten with the next request.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new(lease => 1);
my $redis = $t->redis;
$t->upstream;

my $node = $t->node('a', <<'EOF_CONF');
worker_processes 1;
dsem_redis_connect_timeout 200ms;
dsem_lease 1s;
dsem_reuse off;
add_header X-Dsem $dsem_status always;
upstream gpus {
    server %%UPSTREAM%%;
    dsem gpus limit=4/server;
}
server {
    listen 127.0.0.1:%%PORT%%;
    location / {
        dsem tenant:$arg_t limit=4;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /literal {
        dsem literal limit=4;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /auto {
        dsem auto limit=auto min=1 max=8;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /gpus {
        proxy_pass http://gpus;
    }
    location /queue {
        dsem queue limit=4 queue=5 timeout=300ms;
        proxy_pass http://%%UPSTREAM%%;
    }
}
EOF_CONF

my %path = ('tenant:a' => '/?t=a', map { $_ => "/$_" } qw(literal auto gpus queue));
my @names = sort keys %path;

# Redis has replied to a request of each name.
sub seen {
    my ($status) = @_;
    is $node->get($path{$_})->header('X-Dsem'), $status->{$_} // $status->{all},
        "$_: seen" for @names;
}

sub gone {
    $node->clear_logs;
    $redis->stop;
    wait_for { unavailable() } 15, 'redis unavailable';
}

sub unavailable { return scalar $node->grep_log(qr/unavailable \(/) }

# A name of which nothing is known is admitted after the lease.
sub lease_over {
    wait_for { $node->get('/?t=other')->status == 200 } 15, 'the lease is over';
}

sub refused {
    my ($when) = @_;
    my %expected = map { $_ => 'REJECTED' } @names;
    is_deeply { map { $_ => $node->get($path{$_})->header('X-Dsem') } @names },
        { %expected, queue => 'TIMEOUT' }, "$when: none is admitted";
}

seen({ all => 'PASSED' });
$t->state->order($_, '- 1') for @names;
seen({ all => 'REJECTED', queue => 'TIMEOUT' });
gone();
lease_over();
refused('a worker that has seen it');
$node->clear_logs;
$node->reload;
wait_for { unavailable() } 15, 'the new worker has no redis either';
lease_over();
refused('a worker that starts');

$redis->start;
wait_for { $t->state->session_count == 1 } 15, 'redis available';
wait_for { $node->get('/?t=other')->header('X-Dsem') eq 'PASSED' } 15,
    'redis has recovered';
seen({ all => 'PASSED' });
gone();
lease_over();
is_deeply [ map { $node->get($path{$_})->header('X-Dsem') } @names ],
    [ ('DEGRADED') x @names ], 'a pause that has ended is forgotten';
$redis->start;
$t->done;
