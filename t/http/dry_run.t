#!/usr/bin/perl

# A dry run lets everything pass and says what would have happened. A ticket
# goes on waiting beside the request that is served meanwhile.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $up = $t->upstream;

my $node = $t->node('n1', <<'EOF_CONF');
dsem_dry_run on;
add_header X-Dsem $dsem_status always;
server {
    listen 127.0.0.1:%%PORT%%;
    location /tried {
        dsem tried limit=1 queue=2 timeout=30s;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /impatient {
        dsem tried limit=1 queue=2 timeout=500ms;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /patient {
        dsem patient limit=1 queue=2 timeout=30s;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /enforced {
        dsem_dry_run off;
        dsem enforced limit=1;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /wrong {
        dsem wrong limit=$arg_limit;
        proxy_pass http://%%UPSTREAM%%;
    }
}
EOF_CONF

# the one that is served, one that waits, one that would be refused

my $served = begin('/tried?hang=1', 1);
my $behind = begin('/tried?hang=1', 2);
eventually { counts('tried') eq '1 1' } 'ticket queued, request served';
my $other = begin('/tried?hang=1', 3);
eventually { counts('tried') eq '1 2' } 'second ticket queued';

my $refused = begin('/tried?hang=1', 4);
wait_for { $node->grep_log(qr/dsem rejected, dry run/) };
$up->release_nonce($refused->nonce);
is($refused->wait->status, 200, 'rejected request passes');
is($refused->header('X-Dsem'), 'REJECTED_DRY_RUN', 'rejection in header');
is(scalar $node->grep_log(qr/\[error\].* dsem\ rejected,\ dry\ run:\ semaphore
    \ "tried"\ has\ 1\ of\ 1/x), 1, 'rejection in error log');

# a request ends, with its ticket

$up->release_nonce($other->nonce);
is($other->wait->header('X-Dsem'), 'QUEUED_DRY_RUN', 'wait in header');
eventually { counts('tried') eq '1 1' } 'second ticket removed';

# the ticket's time runs out while the request is served

my $waiting = begin('/impatient?hang=1', 3);
eventually { $node->grep_log(qr/dsem timeout, dry run/) } 'timeout logged';
eventually { counts('tried') eq '1 1' } 'timed out ticket removed';
$up->release_nonce($behind->nonce);
is($behind->wait->header('X-Dsem'), 'QUEUED_DRY_RUN', 'first ticket stayed');
eventually { counts('tried') eq '1 0' } 'first ticket removed';
$up->release_all;
is($_->wait->status, 200, 'request served') for $served, $waiting;
is($served->header('X-Dsem'), 'PASSED', 'pass in header');
is(status_of($served), 'PASSED', 'pass in access log');
is(status_of($waiting), 'TIMEOUT_DRY_RUN', 'timeout in access log');
is(status_of($other), 'QUEUED_DRY_RUN', 'wait in access log');
is(status_of($refused), 'REJECTED_DRY_RUN', 'rejection in access log');
is(scalar $node->grep_log(qr/dsem timeout/), 1, 'one timeout');
eventually { counts('tried') eq '0 0' } 'nothing left';

# a ticket that comes to its permit while its request is served holds it

my $before = begin('/patient?hang=1', 1);
my $after = begin('/patient?hang=1', 2);
eventually { counts('patient') eq '1 1' } 'ticket queued';
$up->release_nonce($before->nonce);
is($before->wait->status, 200, 'holder served');
eventually { counts('patient') eq '1 0' } 'permit handed over';
my $last = begin('/patient?hang=1', 2);
wait_for { counts('patient') eq '1 1' };
# replies come in order: after one that is waited for, the worker has that one
is($node->get('/enforced')->status, 200, 'Redis has replied');
$up->release_nonce($last->nonce);
is($last->wait->header('X-Dsem'), 'QUEUED_DRY_RUN', 'next ticket queued');
$up->release_all;
is($after->wait->status, 200, 'queued request served');
is(status_of($after), 'QUEUED_DRY_RUN', 'status is QUEUED_DRY_RUN');

# whoever leaves takes the ticket along

my $holder = begin('/patient?hang=1', 1);
my $leaver = begin('/patient?hang=1', 2);
eventually { counts('patient') eq '1 1' } 'ticket queued';
$leaver->close;
eventually { counts('patient') eq '1 0' } 'ticket removed', 3;
$up->release_all;
is($holder->wait->status, 200, 'holder served');

# what cannot be understood

is($node->get('/wrong?limit=many')->header('X-Dsem'), 'ERROR_DRY_RUN',
    'error in header');

my @keys = grep { /:[sq]:/ } @{ $redis->cmd('KEYS', '*') };
is_deeply(\@keys, [], 'no keys left');

done_testing();

sub status_of { $node->logged($_[0])->{dsem_status} }

sub begin {
    my ($path, $now) = @_;
    my $request = $node->begin($path);
    wait_for { $up->now == $now } 15, "$now served at once";
    return $request;
}

# held and waiting
sub counts { return $t->state->counts($_[0]) }
