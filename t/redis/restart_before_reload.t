#!/usr/bin/perl

# Redis restarts with a state that is older than a session: a node has replaced
# another one since it was saved. The lease of the new node's session is not
# over. While the state recovers its permits serve its requests, and the permits
# of the old node, which the state still counts, are no overage.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new(lease => 60);
my $redis = $t->redis(args => [qw(--dbfilename dump.rdb)]);
my $state = $t->state;
my $up = $t->upstream;
my $proxy = $t->proxy($redis->address);

my $conf = <<'EOF_CONF';
worker_processes 1;
dsem_lease 60s;
dsem_redis_timeout 1m;
location / {
    dsem api limit=2 queue=5 timeout=60s;
    proxy_pass http://%%UPSTREAM%%;
}
location /dsem/ {
    dsem_api;
}
EOF_CONF

sub hold {
    my ($node) = @_;
    my @requests = map { $node->begin('/?hang=1') } 1, 2;
    wait_for { $up->now == 2 } 15, 'all permits in use';
    return @requests;
}

my $old = $t->node('old', $conf);
my @before = hold($old);
$redis->cmd('SAVE');
my ($gone) = $state->sessions;
$up->release_all;
is $_->wait->status, 200, 'served' for @before;
$old->quit;

my $new = $t->node('new', $conf);
my $missing = $t->node('missing', $conf, REDIS => $proxy->address);
# they know of each other
$redis->all_beat(2);
my @runs = hold($new);

# the recovery lasts until the missing one is back
$proxy->freeze;
push @runs, $new->begin('/?hang=1');
wait_for { $state->waiting('api') == 1 } 15, 'one waits';
$redis->kill->start;
eventually { $new->grep_log(qr/available again/) } 'declared';
is_deeply [ $redis->recovering, $state->held('api') ], [ 1, 4 ],
    'recovers, with the permits of the old node';
$up->release_nonce($runs[0]->nonce);
is $runs[0]->wait->status, 200, 'a request ends';
eventually { $up->started == 5 } 'its permit serves the next one' or die;
is $redis->recovering, 1, 'while Redis recovers';

$state->lapse($gone);
$proxy->cut;
$proxy->thaw;
eventually { !$redis->recovering } 'recovery ends';
is $up->peak, 2, 'limit kept';
is scalar($new->grep_log(qr/overage/)), 0, 'no overage logged';
like $new->get('/dsem/metrics')->body,
    qr/^dsem_overage_permits_total\{[^}]*"api"\} 0$/m, 'none counted';
$up->release_all;
is $_->wait->status, 200, 'served' for @runs[1, 2];

$t->done;
