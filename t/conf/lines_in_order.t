#!/usr/bin/perl

# Two dsem lines in one location are acquired in the order written. The permit
# of the first line is released when the second rejects. A repeated name is
# acquired once, with the larger weight.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
$t->redis;
my $up = $t->upstream;

my ($one, $two) = $t->fleet(2, <<'EOF_CONF');
%%GLOBALS%%
events { }
http {
    %%HTTP%%
    dsem_redis %%REDIS%%;
    dsem_node %%NODE%%;
    dsem_reuse off;
    add_header X-Dsem "$dsem_status $dsem_name" always;
    server {
        listen 127.0.0.1:%%PORT%%;
        location /narrow_first {
            dsem "tenant:$arg_tenant" limit=1 queue=5 timeout=30s;
            dsem all limit=2;
            proxy_pass http://%%UPSTREAM%%;
        }
        location /slow_page {
            dsem "tenant:$arg_tenant" limit=1;
            dsem all limit=2;
            error_page 503 = @page;
            proxy_pass http://%%UPSTREAM%%;
        }
        location @page {
            proxy_pass http://%%UPSTREAM%%;
        }
        location /patient {
            dsem "tenant:$arg_tenant" limit=1 queue=5 timeout=30s;
            dsem all limit=2 queue=5 timeout=30s;
            proxy_pass http://%%UPSTREAM%%;
        }
        location /impatient {
            dsem "tenant:$arg_tenant" limit=1 queue=5 timeout=30s;
            dsem all limit=2 queue=5 timeout=100ms;
            proxy_pass http://%%UPSTREAM%%;
        }
        location /twice {
            dsem twice limit=5 weight=2;
            dsem $arg_name limit=5 weight=3;
            dsem "twi$arg_rest" limit=5;
            proxy_pass http://%%UPSTREAM%%;
        }
    }
}
EOF_CONF

# the queue of the first line, while the second is not touched

my $a = $one->begin('/narrow_first?tenant=a&hang=1');
eventually { $up->now == 1 } 'first of tenant a served';
my $behind = $two->begin('/narrow_first?tenant=a&hang=1');
eventually { state('tenant:a') eq '1 1' } 'second queued for its tenant';
is(state('all'), '1 0', 'one permit of all held');
my $b = $two->begin('/narrow_first?tenant=b&hang=1');
eventually { $up->now == 2 } 'tenant b does not wait';
is(state('all'), '2 0', 'two permits of all held');

# rejected by the second line

my $refused = $one->get('/narrow_first?tenant=c');
is($refused->status, 503, 'third tenant refused');
is($refused->header('X-Dsem'), 'REJECTED all', 'rejected by second line');
eventually { state('tenant:c') eq '0 0' } 'first permit returned', 3;

my $page = $one->begin('/slow_page?tenant=c&hang=1', 'X-Nonce' => 'page');
eventually { $up->now == 3 } 'slow page started';
eventually { state('tenant:c') eq '0 0' } 'first permit already returned';
$up->release_nonce('page');
is($page->wait->header('X-Dsem'), 'REJECTED all', 'rejected by second line');

my $late = $one->get('/impatient?tenant=c');
is($late->header('X-Dsem'), 'TIMEOUT all', 'timeout in the second line');
eventually { state('tenant:c') eq '0 0' } 'first permit returned', 3;
eventually { state('all') eq '2 0' } 'no ticket waiting';

# a request queued in the second line holds the first; its abort releases both

my $c = $one->begin('/patient?tenant=c&hang=1');
eventually { state('all') eq '2 1' } 'queued in second line';
is(state('tenant:c'), '1 0', 'first permit held');
my $leaver = $two->begin('/patient?tenant=d&hang=1');
eventually { state('all') eq '2 2' } 'second request queued';
$leaver->close;
eventually { state('all') eq '2 1' && state('tenant:d') eq '0 0' }
    'both lines released', 3;

# the second line may reject after a wait in the first

$up->release(1);
is($a->wait->header('X-Dsem'), 'PASSED all', 'first request passed');
is($behind->wait->header('X-Dsem'), 'REJECTED all', 'queued request rejected');
eventually { $up->now == 2 && state('all') eq '2 0' } 'waiting request next';
eventually { state('tenant:a') eq '0 0' } 'first permit returned', 3;
$up->release_all;
is($b->wait->header('X-Dsem'), 'PASSED all', 'request passed');
is($c->wait->header('X-Dsem'), 'QUEUED all', 'queued in second line');
eventually { state('all') eq '0 0' } 'all permits returned';
is($up->peak, 3, 'limit and page at backend');

# one name, three lines

my $thrice = $one->begin('/twice?name=twice&rest=ce&hang=1');
eventually { $up->now == 1 } 'no wait for own permit';
is(state('twice'), '3 0', 'acquired once, larger weight');
$up->release_all;
is($thrice->wait->header('X-Dsem'), 'PASSED twice', 'request passed');
eventually { state('twice') eq '0 0' } 'released once';
ok(!$t->state->exists('twice'), 'nothing left');

done_testing();

# permits held and tickets waiting
sub state {
    my ($name) = @_;
    return $t->state->counts($name);
}
