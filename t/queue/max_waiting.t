#!/usr/bin/perl

# dsem_max_waiting bounds the waiting requests of a worker over all semaphores,
# whatever the queue sizes. Further requests are rejected at once.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
$t->redis;
my $up = $t->upstream;

my $conf = <<'EOF_CONF';
%%GLOBALS%%
events { worker_connections %%CONNECTIONS%%; }
http {
    %%HTTP%%
    dsem_redis %%REDIS%%;
    dsem_node %%NODE%%;
    %%MAX_WAITING%%
    add_header X-Dsem $dsem_status always;
    server {
        listen 127.0.0.1:%%PORT%%;
        location /by_name {
            dsem $arg_name limit=1 queue=100 timeout=30s;
            proxy_pass http://%%UPSTREAM%%;
        }
    }
}
EOF_CONF

my $node = $t->node('set', $conf, CONNECTIONS => 512,
    MAX_WAITING => 'dsem_max_waiting 3;');
my $other = $t->node('other', $conf, CONNECTIONS => 512,
    MAX_WAITING => 'dsem_max_waiting 3;');
my $default = $t->node('default', $conf, CONNECTIONS => 64,
    MAX_WAITING => '');

my @holders = map { $node->begin("/by_name?name=$_&hang=1") } qw(a b);
eventually { $up->now == 2 } 'two requests served';
my @waiting = map { $node->begin("/by_name?name=$_") } qw(a b a);
eventually { waiting('a') == 2 && waiting('b') == 1 } 'three requests queued';

for my $name (qw(a b c)) {
    my $refused = $node->get("/by_name?name=$name");
    is($refused->status, 503, 'fourth request rejected');
    is($refused->header('X-Dsem'), 'REJECTED', 'status is REJECTED');
    cmp_ok($refused->took, '<', 15, 'rejected at once');
}
is(scalar $node->grep_log(qr/\[error\].* dsem rejected/), 3,
    'rejections logged');
is(waiting('a') + waiting('b'), 3, 'no ticket in redis');

# another worker has its own bound

push @waiting, $other->begin('/by_name?name=a');
eventually { waiting('a') == 3 } 'other worker queues request';

# one client leaves: one more request may wait

(shift @waiting)->close;
eventually { waiting('a') == 2 } 'one client left';
push @waiting, $node->begin('/by_name?name=b');
eventually { waiting('b') == 2 } 'one more queued';
is($node->get('/by_name?name=a')->status, 503, 'next request rejected');

# the default is half of worker_connections

my @many = map { $default->begin('/by_name?name=a') } 1 .. 32;
eventually { waiting('a') == 34 } 'half the connections queued';
is($default->get('/by_name?name=a')->status, 503, 'next request rejected');
$_->close for @many;

$up->release_all;
is($_->wait->status, 200, 'request served') for @holders, @waiting;
is($up->peak, 2, 'one per semaphore');

done_testing();

sub waiting { $t->state->waiting($_[0]) }
