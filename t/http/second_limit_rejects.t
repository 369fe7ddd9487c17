#!/usr/bin/perl

# A request that has acquired the permit of its first semaphore and does not
# get that of the second releases the first one, whether the second rejects it,
# lets it time out, or the client leaves while it waits.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
$t->redis;
my $up = $t->upstream;

my $node = $t->node('n1', <<'EOF_CONF');
dsem_log_level info;
lingering_close off;
add_header X-Dsem "$dsem_status $dsem_name" always;
server {
    listen 127.0.0.1:%%PORT%%;
    location /second {
        dsem second limit=1;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /full {
        dsem first limit=2 queue=10 timeout=30s;
        dsem second limit=1;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /timeout {
        dsem first limit=2 queue=10 timeout=30s;
        dsem second limit=1 queue=10 timeout=50ms;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /wait {
        dsem first limit=2 queue=10 timeout=30s;
        dsem second limit=1 queue=10 timeout=30s;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /page {
        dsem first limit=2 queue=10 timeout=30s;
        dsem second limit=1;
        error_page 503 = @page;
        proxy_pass http://%%UPSTREAM%%;
    }
    location @page {
        proxy_pass http://%%UPSTREAM%%;
    }
    location /first {
        dsem first limit=2;
        proxy_pass http://%%UPSTREAM%%;
    }
}
EOF_CONF

my $holder = $node->begin('/second?hang=1');
wait_for { $up->now == 1 };

my %refused = (full => 'REJECTED second', timeout => 'TIMEOUT second');
for my $name (sort keys %refused) {
    for (1 .. 20) {
        my $request = $node->get("/$name");
        is($request->header('X-Dsem'), $refused{$name}, "$name: status");
    }
    eventually { held() == 0 } 'first permit released';
}

for (1 .. 20) {
    my $leaver = $node->begin('/wait');
    wait_for { waiting() == 1 };
    $leaver->close;
    wait_for { waiting() == 0 };
}
eventually { held() == 0 } 'client abort: first permit released';

# while the error page is fetched
my $page = $node->begin('/page?hang=1');
wait_for { $up->now == 2 } 15, 'error page at the backend';
eventually { held() == 0 } 'error page: first permit released', 5;
$page->close;
wait_for { $up->now == 1 } 15, 'error page ended';

# both permits of the first are free
my @served = map { $node->begin("/first?hang=1&n=$_") } 1, 2;
eventually { $up->now == 3 } 'first semaphore not used up';
$up->release_all;
is($_->wait->status, 200, 'request served') for $holder, @served;

done_testing();

sub held { $t->state->held('first') }
sub waiting { $t->state->waiting('second') }
