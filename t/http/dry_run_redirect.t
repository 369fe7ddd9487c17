#!/usr/bin/perl

# From a location with a dry run into one where the same semaphore is
# enforced: a ticket that still waits is no permit.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
$t->redis;
my $up = $t->upstream;

my $node = $t->node('n1', <<'EOF_CONF');
dsem one limit=1 queue=10 timeout=30s;
add_header X-Dsem $dsem_status always;
server {
    listen 127.0.0.1:%%PORT%%;
    root %%DIR%%;
    location /tried {
        dsem_dry_run on;
        try_files /nowhere @enforced;
    }
    location @enforced {
        proxy_pass http://%%UPSTREAM%%;
    }
    location /rejected {
        dsem two limit=0;
        dsem_dry_run on;
        try_files /nowhere @unlimited;
    }
    location /full {
        dsem two limit=0;
        dsem_dry_run on;
        try_files /nowhere @passes;
    }
    location @unlimited {
        dsem off;
        proxy_pass http://%%UPSTREAM%%;
    }
    location @passes {
        dsem three limit=1 queue=10;
        proxy_pass http://%%UPSTREAM%%;
    }
}
EOF_CONF

my $holder = $node->begin('/tried?hang=1');
eventually { $up->now == 1 } 'limit reached';
my $waiting = $node->begin('/tried?hang=1');
eventually { state() eq '1 1' } 'second request queued';
my $behind = $node->begin('/tried?hang=1');
eventually { state() eq '1 2' } 'third request queued';
is($up->now, 1, 'one request at backend');

$up->release_all;
is($holder->wait->header('X-Dsem'), 'PASSED', 'holder served');
wait_for { $up->release_all; $waiting->done && $behind->done };
is($_->header('X-Dsem'), 'QUEUED',
    'requests served in turn') for $waiting, $behind;
is($up->peak, 1, 'one at a time');
eventually { state() eq '0 0' } 'nothing left';

# a rejection of the dry run remains one after a redirect without limits, and
# leaves nothing for one with other limits

my $request = $node->begin('/rejected?hang=1');
wait_for { rejected() == 1 && $up->release_all };
is($request->wait->status, 200, 'rejected request passes');
is($node->logged($request)->{dsem_status}, 'REJECTED_DRY_RUN',
    'rejection logged as dry run');
$request = $node->begin('/full?hang=1');
wait_for { $t->state->counts('three') eq '1 0' && $up->now == 1 };
$up->release_all;
is($request->wait->status, 200, 'rejected request passes elsewhere');
is($node->logged($request)->{dsem_status}, 'PASSED', 'status is PASSED');

done_testing();

sub rejected { scalar $node->grep_log(qr/dsem rejected, dry run/) }

# permits held and tickets waiting
sub state { return $t->state->counts('one') }
