#!/usr/bin/perl

# Another server takes over, which may evict permits: one worker of the node says
# so, once. A reconnect to the same server says nothing more.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new(lease => 30);
my $up = $t->upstream;
my $fit = $t->redis;
my $evicts = $t->redis(args => [qw(--maxmemory 100mb),
    qw(--maxmemory-policy allkeys-lru)]);
my $proxy = $t->proxy($fit->address);

my $node = $t->node('a', <<'EOF_CONF', REDIS => $proxy->address);
worker_processes 2;
dsem_lease 30s;
location / { dsem api limit=4; proxy_pass http://%%UPSTREAM%%; }
EOF_CONF

# Waits until both workers have declared in later epochs than the given one, and
# returns the later of the two.
sub declared {
    my ($redis, $epoch) = @_;
    my ($state, @epochs) = (Dsem::State->new($redis));
    eventually { (@epochs = $state->declared) == 2 && $epochs[0] > $epoch }
        "declared after epoch $epoch";
    return $epochs[1];
}

my $unfit = qr/\[warn\].*may evict permits \(maxmemory-policy allkeys-lru\)/;

is $node->get('/')->status, 200, 'passed';
declared($fit, 0);
is scalar($node->grep_log($unfit)), 0, 'a server that suits';

$proxy->retarget($evicts->address);
$proxy->cut;
my $epoch = declared($evicts, 0);
eventually { $node->grep_log($unfit) } 'the next one is named';

$evicts->client_kill;
declared($evicts, $epoch);
is scalar($node->grep_log($unfit)), 1, 'once';
is $node->get('/')->status, 200, 'passed again';

$t->done;
