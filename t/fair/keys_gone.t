#!/usr/bin/perl

# Keys that have nothing any more are not shown by the API, while their
# semaphore is in use and afterwards; nor are those of a worker that was killed.
# All workers together show twenty keys at most.

use Cpanel::JSON::XS;
use lib 't/lib';
use Dsem::Clock;
use Dsem::Test;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $up = $t->upstream;

my $clock = Dsem::Clock->new($t, monotonic => 1);
my $node = $clock->node('n1', <<'EOF_CONF');
worker_processes 4;
dsem_reuse off;
server {
    # all workers have requests
    listen 127.0.0.1:%%PORT%% reuseport;
    location / {
        dsem api limit=100 queue=100 timeout=30s fair=$arg_k;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /plain {
        dsem api limit=100 queue=100 timeout=30s;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /dsem/ {
        dsem_api;
    }
}
EOF_CONF

sub shown {
    return map { $_->{key} } @{ decode_json(
        $node->get('/dsem/semaphores/api')->body)->{semaphore}{local}{keys} };
}

# After the end of many requests with keys none is shown. What a worker does not
# write again is passed over after some seconds, of which only one goes by.
sub gone {
    my ($name) = @_;
    my $others = $up->now;
    my @keyed = map { $node->begin("/?k=$_&hang=1") } 1 .. 40;
    wait_for { $up->now == $others + 40 && shown() >= 20 } 15, 'twenty keys';
    ok !grep({ shown() > 20 } 1 .. 5), 'not more than that';
    $clock->stop;
    $up->release_nonce($_->nonce) for @keyed;
    $_->wait for @keyed;
    wait_for { $t->state->held('api') == $others } 15, 'their permits are back';
    $clock->step(1);
    eventually { !shown() } $name;
    $clock->go;
}

# while the semaphore is in use otherwise, and with it

my @plain = map { $node->begin("/plain?hang=1&n=$_") } 1 .. 40;
wait_for { $up->now == 40 } 15, 'requests without a key';
gone('gone in a second');
$_->abort for @plain;
wait_for { $up->now == 0 } 15, 'semaphore not in use';
gone('gone with the semaphore');

# the worker that has them is killed

my $held = $node->begin('/?k=killed&hang=1');
wait_for { $up->now == 1 && shown() == 1 } 15, 'a key';
$node->kill_worker($_) for $node->workers;
# and has said nothing for long
$clock->step(10);
eventually { eval { !shown() } } 'gone with its workers';
$held->close;

$t->done;
