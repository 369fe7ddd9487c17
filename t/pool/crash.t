#!/usr/bin/perl

# What ends a worker, a configuration or the state in Redis under load gives no
# server of a pool more than its limit, and takes none out of service.

use lib 't/lib';
use Dsem::Test;

my $RELOADS = $ENV{DSEM_LONG} ? 50 : 1;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my @up = map { $t->upstream } 1 .. 3;
my $servers = join ' ', map { 'server ' . $_->address . ';' } @up;

my @nodes = $t->fleet(2, <<"EOF_CONF");
worker_processes 2;
upstream gpus {
    zone gpus 64k;
    $servers
    dsem gpus limit=1/server queue=100 timeout=60s;
    keepalive 8;
}
server {
    listen 127.0.0.1:%%PORT%%;
    location / {
        proxy_pass http://gpus;
        proxy_http_version 1.1;
        proxy_set_header Connection "";
    }
}
EOF_CONF

my $load = $t->load_start(urls => [ map { $_->url('/?t=10') } @nodes ],
    clients => 12, seconds => 3600, timeout => 60);

# each server serves so many more requests
sub served {
    my ($name) = @_;
    my @before = map { $_->served } @up;
    eventually {
        !grep { $up[$_]->served < $before[$_] + 20 } 0 .. $#up
    } "each server serves: $name", 30;
}

served('at first');
$nodes[0]->kill_worker;
served('after a worker was killed');
# others know of its successor: recovery does not end without that one
$redis->all_beat(4);
$redis->cmd('FLUSHALL');
served('after all state was lost');
for my $n (1 .. $RELOADS) {
    $_->reload for @nodes;
    served("after reload $n");
}
is $_->peak, 1, 'limit of a server reached, not exceeded' for @up;

# An exception: Redis has lost the holders and may grant what they hold, until
# they declare it.
$t->state->delete_semaphore('gpus');
served('after the semaphore was lost');

my $result = $load->stop->wait;
# one that the worker had accepted, and not read, is reset
is_deeply [ grep { !/^(?:empty|reset)$/ } sort keys %{ $result->{statuses} } ],
    [200], 'only the killed worker\'s requests failed'
    or diag explain $result->{statuses};

$t->done;
