#!/usr/bin/perl

# The memory of a waiting request: at most 1 KB more than nginx needs for a
# request delayed by limit_req.

use lib 't/lib';
use Dsem::Test;

plan skip_all => 'sanitizers have a memory of their own'
    if $ENV{DSEM_TIME_FACTOR};

my $N = 1000;
my $BEFORE = 200;

my $t = Dsem::Test->new;
$t->redis;
my $up = $t->upstream;

my $conf = <<'EOF_CONF';
%%GLOBALS%%
worker_processes 1;
worker_rlimit_nofile 4096;
events { worker_connections 2048; }
http {
    %%HTTP%%
    limit_req_zone $binary_remote_addr zone=slow:1m rate=1r/m;
    limit_req_log_level notice;
    dsem_redis %%REDIS%%;
    dsem_node %%NODE%%;
    dsem_max_waiting 2000;
    proxy_read_timeout 1h;
    server {
        listen 127.0.0.1:%%PORT%% backlog=2048;
        location /limit_req {
            limit_req zone=slow burst=2000;
            proxy_pass http://%%UPSTREAM%%;
        }
        location /dsem {
            dsem api limit=1 queue=2000 timeout=1h;
            proxy_pass http://%%UPSTREAM%%;
        }
    }
}
EOF_CONF

# A worker of its own for each, so that no memory is used twice: bytes for
# each of N requests, once as many wait as $waiting says. Those of before fill
# what the start has left free. They come by fifties: what one command for a
# thousand needs, for a moment, is not the subject.
sub bytes {
    my ($name, $waiting) = @_;
    my $node = $t->node($name, $conf);
    my $first = $node->begin("/$name?hang=1");
    eventually { $up->now == 1 } "$name: one request served";
    my ($before, @requests);
    while (@requests < $N + $BEFORE) {
        $before = $node->private if @requests == $BEFORE;
        push @requests, map { $node->begin("/$name") } 1 .. 50;
        wait_for { $waiting->($node) == @requests } 15, "$name: requests queued";
    }
    my $each = ($node->private - $before) / $N;
    $_->close for @requests;
    $up->release_all;
    is $first->wait->status, 200, "$name: requests served";
    return $each;
}

my $own = bytes('limit_req', sub {
    return scalar $_[0]->grep_log(qr/delaying request/);
});
my $all = bytes('dsem', sub {
    return $t->state->waiting('api');
});

cmp_ok $own, '>', 4096, 'request pool measured';
cmp_ok $all - $own, '<', 1024, 'at most 1 KB extra';
note sprintf '%d bytes for a request that waits, %d of them for dsem', $all,
    $all - $own;

$t->done;
