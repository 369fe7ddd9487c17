#!/usr/bin/perl

# In a dry run requests are decided by the same fair rules, and none is
# suspended or rejected: the log tells what would have become of them.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $up = $t->upstream;

my $node = $t->node('n1', <<'EOF_CONF');
worker_processes 1;
dsem_dry_run on;
dsem_log_level info;
location / {
    dsem api limit=1 queue=2 timeout=20s fair=$arg_k;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

my @all;
sub ask {
    my ($k, $waiting) = @_;
    my $request = $node->begin("/?k=$k&hang=1");
    push @all, $request;
    wait_for { $up->now == @all } 15, 'at the backend at once';
    wait_for { $t->state->waiting('api') == $waiting } 15, 'in the queue';
    return $request;
}

my $holder = ask('holder', 0);
my $first = ask('heavy', 1);
my $dropped = ask('heavy', 2);
my $refused = ask('heavy', 2);
my $light = ask('light', 2);

# in the reply of the next sync at the latest
eventually { $node->grep_log(qr/dsem rejected, dry run/) >= 2 }
    'two rejections logged';
is $up->now, 5, 'all at the backend';
$up->release_all;
is $_->wait->status, 200, 'request served' for @all;

my %status = map { $_->[0] => $node->logged($_->[1])->{dsem_status} }
    ['holder', $holder], ['first', $first], ['dropped', $dropped],
    ['refused', $refused], ['light', $light];
is_deeply \%status, {
    holder => 'PASSED', first => 'QUEUED_DRY_RUN',
    dropped => 'REJECTED_DRY_RUN', refused => 'REJECTED_DRY_RUN',
    light => 'QUEUED_DRY_RUN',
}, 'decided as without a dry run' or diag explain \%status;

$t->done;
