#!/usr/bin/perl

# nginx is stopped at once, with requests running, and waits for Redis's reply
# to bye, which is late. Other nodes get the permits meanwhile: connections to
# upstreams have ended before, so that the limit holds.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
my $up = $t->upstream;

my $conf = <<'EOF_CONF';
worker_processes 2;
upstream kept {
    server %%UPSTREAM%%;
    keepalive 8;
}
server {
    listen 127.0.0.1:%%PORT%%;
    location /stopped {
        dsem api limit=20 queue=100 timeout=20s;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /kept {
        dsem api limit=20 queue=100 timeout=20s;
        proxy_http_version 1.1;
        proxy_set_header Connection "";
        proxy_pass http://kept;
    }
}
EOF_CONF

my $link = $t->proxy($t->redis->address);
my $other = $t->node('other', $conf);
my $node = $t->node('stopped', $conf, REDIS => $link->address);

is $node->get('/kept?t=1')->status, 200, 'a connection is kept';
my @lost = map {
    $node->begin($_ % 2 ? '/kept?hang=1' : '/stopped?hang=1')
} 1 .. 20;
eventually { $up->now == 20 } 'all permits in use on one node';
my @waiting = map { $other->begin('/stopped?hang=1') } 1 .. 20;
eventually { $t->state->waiting('api') == 20 } 'requests wait on another';

my $started = $up->started;
# longer than workers wait; each request that comes asks Redis for permits
$link->delay(0.3, 's2c');
$node->signal('TERM');
wait_for {
    push @waiting, $other->begin('/stopped?hang=1') if @waiting < 100;
    !$node->alive;
} 15, 'the end';
eventually { $up->started == $started + 20 && $up->now == 20 }
    'the other node has all permits';
is $up->peak, 20, 'limit reached, never exceeded';
eventually { $up->release_all; !grep { !$_->done } @waiting } 'all end';
is scalar(grep { $_->wait->status != 200 } @waiting), 0, 'all served';

$t->done;
