#!/usr/bin/perl

# What an operator sees at the stock level of error_log: an error when Redis
# becomes unavailable, with a cause that names how the connect failed, and
# nothing of a short loss. A notice has the server and its version when a
# worker is first connected.

use lib 't/lib';
use IO::Socket::UNIX;

use Dsem::Node::Conf;
use Dsem::Test;

my $t = Dsem::Test->new(lease => 2);
my $redis = $t->redis;
my $up = $t->upstream;
my $proxy = $t->proxy($redis->address);
my $stuck = $t->proxy($redis->address);

my $conf = <<'EOF_CONF';
%%GLOBALS%%
error_log %%DIR%%/stock.log;
worker_processes 1;
events { }
http {
    %%HTTP%%
    dsem_redis %%REDIS%%;
    dsem_redis_connect_timeout 1s;
    dsem_redis_timeout 1s;
    # a heartbeat is a fifth of it
    dsem_lease 2s;
    dsem_node %%NODE%%;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / {
            dsem api limit=2 queue=10;
            proxy_pass http://%%UPSTREAM%%;
        }
    }
}
EOF_CONF

sub stock {
    my ($node, $re) = @_;
    open my $log, '<', $node->dir . '/stock.log' or die "stock.log: $!";
    return grep { /$re/ } <$log>;
}

sub cause {
    my ($node) = @_;
    my ($line) = stock($node, qr/\[error\].*dsem: redis \S+ unavailable \(/)
        or return '';
    return $line =~ /unavailable \((.*?)\), / ? $1 : $line;
}

# connected: one notice; a short loss: nothing at the stock level

my $node = $t->node('short', $conf, REDIS => $proxy->address);
my $info = $redis->cmd(qw(INFO server));
my ($server) = $info =~ /^valkey_version:(\S+)/m ? "Valkey $1"
    : $info =~ /^redis_version:(\S+)/m ? "Redis $1" : 'none';
my $address = $proxy->address;
eventually { $node->grep_log(
        qr/\[notice\].*dsem: connected to redis \Q$address ($server)\E/)
        == 1 } 'connected: server and version';
$redis->beats(2, 'heartbeats');
$proxy->cut;
eventually { $node->grep_log(qr/\[notice\].*dsem: .*lost \(.*reconnecting/) }
    'short loss: notice';
eventually { $node->grep_log(qr/\[notice\].*dsem: .*available again/) }
    'short loss: available again';
is scalar(stock($node, qr/./)), 0, 'short loss: no line at the stock level';
is scalar($node->grep_log(qr/connected to redis/)), 1, 'connected: once';

# causes

my $dir = $t->dir;
my $closed = "$dir/closed.sock";
{
    my $gone = IO::Socket::UNIX->new(Local => $closed, Listen => 1) or die $!;
}
$stuck->freeze;
my %cause = (
    'refused' => [ '127.0.0.1:' . $t->free_port,
        qr/^connect failed: Connection refused$/ ],
    'no socket' => [ "unix:$dir/none.sock",
        qr/^connect failed: No such file or directory$/ ],
    'closed socket' => [ "unix:$closed",
        qr/^connect failed: Connection refused$/ ],
    'no directory' => [ "unix:$closed/x.sock",
        qr/^connect failed: Not a directory$/ ],
    'silent' => [ $stuck->address, qr/^no reply in time$/ ],
);
# all at once: each takes the time to connect
my %lost = map { $_ => $t->node(s/ /_/gr, $conf, REDIS => $cause{$_}[0]) }
    keys %cause;
SKIP: {
    skip 'only root can let workers be another user', 2 if $> != 0;
    my $closed = "$dir/closed";
    mkdir $closed, 0700 or die $!;
    (my $as_nobody = $conf) =~ s/^(worker_processes)/user nobody nogroup;\n$1/m;
    # the harness says root
    my $globals = join "\n",
        Dsem::Node::Conf::load_module(),
        'error_log %%DIR%%/error.log info;', 'pid %%DIR%%/nginx.pid;';
    $as_nobody =~ s/%%GLOBALS%%/$globals/;
    $lost{denied} = $t->node('denied', $as_nobody,
        REDIS => "unix:$closed/x.sock");
    $cause{denied}[1] = qr/^connect failed: Permission denied$/;
}
for my $name (sort keys %lost) {
    eventually { cause($lost{$name}) } "$name: error at the stock level";
    like cause($lost{$name}), $cause{$name}[1], "$name: cause";
}

# what replies in time is not what connects in time

$node->clear_logs;
$proxy->freeze;
eventually { stock($node, qr/unavailable \(no reply in time\)/) == 1 }
    'frozen: one error at the stock level';
$proxy->thaw;
eventually { $node->grep_log(qr/\[notice\].*dsem: .*available again after \d+/)
    } 'frozen: available again, with the time';

$t->done;
