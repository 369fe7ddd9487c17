#!/usr/bin/perl

# While workers start, allocations and calls of the system fail, each path
# through the module in one of the workers. A worker starts without what it can
# do without, or ends with an error, and none crashes. The others serve requests.

use lib 't/lib';
use Dsem::Faults;
use Dsem::Test;

plan skip_all => Dsem::Faults::unusable() if Dsem::Faults::unusable();

my $t = Dsem::Test->new(lease => 2);
my $faults = Dsem::Faults->new($t);
$t->redis;
my $up = $t->upstream;

# nginx starts no worker again that could not start
$t->expect_log(
    qr/exited with (?:code 2$|fatal code 2 and cannot be respawned)/);
$t->expect_log(qr/getrandom\(\) failed/);

my $node = $faults->node('a', <<'EOF_CONF');
worker_processes 40;
worker_connections 64;
dsem_lease 2s;
location / {
    dsem found limit=auto queue=100;
    dsem api limit=2 queue=100 timeout=10s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

eventually { $t->state->session_count == 40 } 'all workers connected';
my %old = map { $_ => 1 } $node->workers;

# the master itself reads the configuration without faults

$faults->on(qw(memory system nginx));
$node->signal('HUP');
wait_for { !grep { $old{$_} } $node->workers, $node->draining } 15,
    'the other workers to replace them';

sub ended { return $node->grep_log(qr/exited with fatal code 2/) }

eventually { 40 - ended() == $t->state->session_count }
    'a session for each worker that started';
$faults->off;
my @failed = map { $_->{call} } $faults->records;
note "failed: @failed";
cmp_ok scalar(@failed), '>', 20, 'paths failed';
cmp_ok scalar(ended()), '>', 5, 'workers ended';
cmp_ok scalar(ended()), '<', 30, 'most workers started';

# the last fault may have cost a connection
eventually {
    my @requests = map { $node->begin('/?t=1') } 1 .. 50;
    50 == grep { $_->wait->status == 200 } @requests;
} 'requests served';
cmp_ok $up->peak, '<=', 2, 'limit not exceeded';

$t->done;
