#!/usr/bin/perl

# A peer that is no node of a Cluster replies with anything: redirections to
# itself, to hosts without end, in wrong form, and replies of any shape. Nothing
# is admitted, no worker crashes, no log line is forged, and attempts to
# connect are bounded. When it names a real master, the worker finds that one.

use IO::Select;
use IO::Socket::INET;
use lib 't/lib';
use Dsem::Cluster;
use Dsem::Process;
use Dsem::Test;

my $SEED = 1;

my $t = Dsem::Test->new;
my $cluster = Dsem::Cluster->new($t, masters => 1, replicas => 0);
my $up = $t->upstream;
my $slot = $cluster->slot;

my $port = $t->free_port;
my $listen = IO::Socket::INET->new(LocalAddr => '0.0.0.0', LocalPort => $port,
    Proto => 'tcp', Listen => 100, ReuseAddr => 1) or die "listen: $!";
my $here = "127.0.0.1:$port";
my $counts = $t->dir . '/counts';
my $named = $t->dir . '/named';
my $honest = $t->dir . '/honest';

my @LIES = (
    (map { "-MOVED $slot $_\r\n" } $here, "127.0.0.2:$port", ":$port",
        ':0', ':65536', ':99999999999999999999', ':', '::', 'nocolon', '',
        ' ', '127.0.0.1: 1', '127.0.0.1', '127.0.0.1:1', '::1:1', '[::1]:1',
        '%s%n%d:1', "a b:$port", "a\e[31m:1", "a\0b:1", "a\tb:1",
        "a [error] 1#1: dsem: forged:1", ('x' x 255) . ':1',
        ('x' x 256) . ':1', ('x' x 5000) . ':1', '0.0.0.0:1',
        '255.255.255.255:1', '224.0.0.1:1', '?:1', ('1.' x 200) . ':1'),
    (map { "-MOVED $_ $here\r\n" } 0, 1, 16384, -1, 'x', '', 99999999999),
    "-MOVED 0 " . $cluster->address . "\r\n",
    "-MOVED\r\n", "-MOVED \r\n", "-MOVED $slot\r\n", "-moved $slot $here\r\n",
    "-MOVED  $slot $here\r\n", "-ASK $slot $here\r\n", "-ASK\r\n",
    "-TRYAGAIN Multiple keys\r\n", "-CLUSTERDOWN The cluster is down\r\n",
    "-\r\n", "-ERR \e[31m\x07\r\n", "+OK\r\n", "*0\r\n*0\r\n", ":5\r\n",
    "\$-1\r\n", "*-1\r\n", "*1\r\n*1\r\n*1\r\n*0\r\n", "*99999999\r\n",
    "*2\r\n\$1\r\na\r\n:1\r\n", "\$99999999\r\n", "%1\r\n", "_\r\n", "\0\1\r\n",
    '',
);

my $LOGIN = qr/^\*\d\r\n\$4\r\nAUTH(?:\r\n\$.*\r\n.*)+?\r\n(?=\*|\z)/;

# each of them is told once or twice; hosts without end in between
my $ENOUGH = ($ENV{DSEM_LONG} ? 15 : 1.5) * @LIES + 1;

# one after the other, then changed ones
my $next = 0;
sub lie {
    my ($n) = @_;
    return sprintf "-MOVED $slot 127.1.%d.%d:$port\r\n", $n / 250, 1 + $n % 250
        if $n % 3 == 0;
    return $LIES[$next - 1] if $next++ < @LIES;
    my $lie = $LIES[rand 30];
    substr($lie, 1 + rand(length($lie) - 3), 1) = chr(32 + rand 96)
        for 0 .. rand 3;
    return $lie;
}

sub note_counts {
    my (@count) = @_;
    open my $fh, '>', "$counts.new" or die "$counts: $!";
    print $fh "@count";
    close $fh;
    rename "$counts.new", $counts;
}

my $peer = Dsem::Process->spawn(name => 'peer', log => $t->dir . '/peer.log',
    keep => [$listen], code => sub {
        srand $SEED;
        my ($accepted, $told) = (0, 0);
        my $select = IO::Select->new($listen);
        while (my @ready = $select->can_read) {
            for my $sock (@ready) {
                if ($sock == $listen) {
                    $select->add($listen->accept);
                    $accepted++;
                    next;
                }
                if (!sysread $sock, my $data, 65536) {
                    $select->remove($sock);
                    close $sock;
                } else {
                    # the login is no question
                    syswrite $sock, "+OK\r\n" if $data =~ s/$LOGIN//;
                    next if $data eq '';
                    my $reply = -e $honest
                        ? "-MOVED $slot " . $cluster->address . "\r\n"
                        : -e $named ? "-MOVED $slot nowhere:1\r\n"
                        : lie($told++);
                    syswrite $sock, $reply;
                    # no other reply shows that this one was read
                    if ($reply eq '') {
                        $select->remove($sock);
                        close $sock;
                    }
                }
            }
            note_counts($accepted, $told);
        }
    });
close $listen;

sub counted {
    open my $fh, '<', $counts or return (0, 0);
    return split ' ', <$fh> // '0 0';
}

my $peers = join ' ', map { "127.0.0.$_:$port" } 1 .. 3;
my $node = $t->node('a', <<'EOF_CONF', PEERS => $peers);
worker_processes 2;
dsem_redis %%PEERS%% mode=cluster;
dsem_redis_connect_timeout 300ms;
dsem_redis_timeout 500ms;
dsem_status 503 error=500;
location / {
    dsem api limit=1 timeout=1s;
    dsem_on_error reject;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

my @workers = $node->workers;
my ($began, $last, %status) = (now, 0);
wait_for {
    if (now > $last + 0.1) {
        $last = now;
        $status{ $node->get('/')->status }++;
    }
    (counted())[1] >= $ENOUGH;
} 300, 'each lie to be told';
my $took = now - $began;
my ($accepted, $told) = counted();
is_deeply [ grep { $_ != 500 && $_ != 503 } keys %status ], [],
    'nothing admitted';
is $up->started, 0, 'nothing reached the backend';
is_deeply [$node->workers], \@workers, 'no worker crashed';
# of each worker: three searches at once, each with the nodes that it knows and
# 8 more; then two connections a second
cmp_ok $accepted, '<', 2 * (2 * $took + 3 * (3 + 8) + 5),
    'connections bounded';
note "$accepted connections, $told replies in $took s";

# a name that is no address, until each worker has read it

sub create {
    open my $fh, '>', $_[0] or die "$_[0]: $!";
    close $fh;
}

sub said {
    my %said;
    $said{$_}++ for map { / (\d+)#/ }
        $node->grep_log(qr/\Qnames another node/);
    return \%said;
}

create($named);
eventually { keys %{ said() } == @workers } 'names logged';

create($honest);
eventually { $node->get('/?t=1')->status == 200 } 'master found', 10;
is scalar(grep { /[^\x20-\x7e]/ } split /\n/, $node->error_log), 0,
    'log lines are plain';
is scalar($node->grep_log(qr/^\S* ?\S* ?\[error\] 1#1/)), 0, 'none forged';
is_deeply said(), { map { $_ => 1 } @workers }, 'once by each worker';

$t->done;
