#!/usr/bin/perl

# A change by a node that has no request of the semaphore takes back the permits
# of a node that was lost: they are counted there, as those that a request of the
# node takes back.

use lib 't/lib';
use Cpanel::JSON::XS qw(decode_json);
use Dsem::Test;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $up = $t->upstream;

my ($lost, $node) = $t->fleet(2, <<'EOF_CONF');
worker_processes 1;
location / {
    dsem reports limit=5;
    proxy_pass http://%%UPSTREAM%%;
}
location /dsem/ { dsem_api write=on; }
EOF_CONF

eventually { $t->state->session_count == 2 } 'both connected';
$redis->beats(2, 'their subscriptions are made', 15);
my @held = map { $lost->begin('/?hang=1') } 1, 2;
eventually { $up->now == 2 } 'two requests';
my ($session) = grep { /^n1:/ } $t->state->sessions;
$lost->kill;
$t->state->lapse($session);
eventually { $t->state->session_count == 1 } 'one is lost';
is $t->state->held('reports'), 2, 'its permits are not taken back yet';

is $node->get('/dsem/semaphores/reports', -method => 'PATCH',
    'Content-Type' => 'application/json', -body => '{"limit":3}')->status, 200,
    'limit changed';
eventually {
    decode_json($node->get('/dsem/semaphores/reports')->body)
        ->{semaphore}{local}{reclaimed} // 0;
} 'permits taken back are counted';
is_deeply [ $node->get('/dsem/metrics')->body
    =~ /^dsem_reclaimed_permits_total\{semaphore="reports"\} (\d+)$/m ], [2],
    'both, once';

$up->release_all;
$t->done;
