#!/usr/bin/perl

# An order below the limit that was found stays in force while Redis is
# unavailable, as far as the node has seen it, also one of 0, which takes the
# backend out. So it does for a worker that starts in the outage, and for a name
# of which no request has ended.

use lib 't/lib';
use Dsem::Test;

my $FOUND = 20;

my $t = Dsem::Test->new(lease => 1);
my $redis = $t->redis;
my $up = $t->upstream;

my $node = $t->node('a', <<'EOF_CONF');
worker_processes 1;
dsem_redis_connect_timeout 200ms;
dsem_lease 1s;
add_header X-Dsem $dsem_status always;
location /none {
    dsem none limit=auto max=100;
    proxy_pass http://%%UPSTREAM%%;
}
location /three {
    dsem three limit=auto max=100;
    proxy_pass http://%%UPSTREAM%%;
}
location /unused {
    dsem unused limit=auto max=100;
    proxy_pass http://%%UPSTREAM%%;
}
location /other {
    dsem other limit=20;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

for my $name (qw/none three/) {
    wait_for { $t->state->lowest_limit($name) } 15, 'the session';
    $t->state->set_found($name, $FOUND);
    is $node->get("/$name")->status, 200, "a request of $name";
    wait_for { ($t->state->rule($name)->{found} // 0) == $FOUND } 15,
        'its sample';
}
$t->state->order($_, '0 0') for qw/none unused/;
$t->state->order('three', '3 0');
is $node->get("/$_")->header('X-Dsem'), 'REJECTED', "$_: nothing passes"
    for qw/none unused/;
is $node->get('/three')->header('X-Dsem'), 'PASSED', 'three: less than found';

$redis->stop;
wait_for { unavailable() } 15, 'redis unavailable';
lease_over();
is admitted('none'), 0, 'in the outage: nothing passes';
is admitted('three'), 3, 'in the outage: less than found';
is admitted('unused'), 0, 'in the outage: nothing of a name without samples';

$node->clear_logs;
$node->reload;
wait_for { unavailable() } 15, 'the new worker has no redis either';
lease_over();
is admitted('none'), 0, 'after a reload: nothing passes';
is admitted('three'), 3, 'after a reload: less than found';
is admitted('unused'), 0, 'after a reload: nothing of a name without samples';
$redis->start;

$t->done;

sub unavailable { return scalar $node->grep_log(qr/unavailable \(/) }

# Another name is admitted after the lease only.
sub lease_over {
    wait_for { $node->get('/other')->status == 200 } 15, 'the lease is over';
}

# How many of five requests are.
sub admitted {
    my ($name) = @_;
    return $up->admitted(map { $node->begin("/$name?hang=1&n=$_") } 1 .. 5);
}
