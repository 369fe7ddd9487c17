#!/usr/bin/perl

# Scripts are sent to a Redis that lacks them, and to no other: a connection
# costs some hundred bytes, also where Redis rejects it for minutes because it
# loads its data.

use lib 't/lib';
use Dsem::Test;

my $MOST = 3_000;

my $t = Dsem::Test->new(lease => 2);
my $redis = $t->redis(args => [ qw(--enable-debug-command yes
    --loading-process-events-interval-bytes 1024) ]);
my $up = $t->upstream;
my $far = $t->proxy($redis->address);

my $conf = <<'EOF_CONF';
worker_processes 1;
dsem_lease 2s;
dsem_reuse off;
add_header X-Status $dsem_status always;
location / {
    dsem api limit=2;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

sub loads {
    my ($n) = $redis->cmd('INFO', 'commandstats')
        =~ /cmdstat_script\|load:calls=(\d+)/;
    return $n || 0;
}

# of all connections while the code runs: bytes, connections
sub cost {
    my ($code) = @_;
    my @before = ($far->bytes->{c2s}, $far->accepted);
    $code->();
    return ($far->bytes->{c2s} - $before[0], $far->accepted - $before[1]);
}

sub served {
    my ($node, $what) = @_;
    eventually { $node->get('/?t=1')->header('X-Status') eq 'PASSED' } $what;
}

my $node;
my ($bytes) = cost(sub {
    $node = $t->node('a', $conf, REDIS => $far->address);
    served($node, 'connected');
});
cmp_ok $bytes, '>', 100_000, 'missing scripts sent';
my $loads = loads();
note "the first connection: $bytes bytes";

($bytes) = cost(sub {
    $far->cut;
    served($node, 'connected again');
});
cmp_ok $bytes, '<', 2 * $MOST, 'no script sent again';
note "a connection, its subscription and some commands: $bytes bytes";
is loads(), $loads, 'no script loaded again';

my $next;
($bytes) = cost(sub {
    $next = $t->node('b', $conf, REDIS => $far->address);
    served($next, 'next node connected');
});
cmp_ok $bytes, '<', 2 * $MOST, 'no script sent by the next node';
$next->quit;

my $exited = loads();
$redis->cmd(qw(SCRIPT FLUSH));
served($node, 'served after a flush');
is loads() - $exited, $loads, 'all scripts loaded once';

# one connection at a time says whether Redis is loading
$redis->cmd(qw(DEBUG POPULATE 2000 filler));
$redis->cmd(qw(CONFIG SET key-load-delay 5000));
my ($host, $port) = split /:/, $redis->address;
my $reload = $t->client->raw($host, $port)->send("DEBUG RELOAD\r\n");
wait_for { !eval { $redis->cmd('DBSIZE') } && $@ =~ /LOADING/ } 15, 'loading';
my $connects;
($bytes, $connects) = cost(sub {
    $far->cut;
    my $until = $far->accepted + 4;
    wait_for { $far->accepted > $until } 15, 'connects';
});
cmp_ok $bytes / $connects, '<', $MOST, 'no script sent while redis loads';
$redis->cmd(qw(CONFIG SET key-load-delay 0));
served($node, 'served when all is loaded');

$t->done;
