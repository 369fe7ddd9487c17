#!/usr/bin/perl

# A name with several addresses: all workers try them in the same order, four
# without a pause. A dead address, whether it refuses connections or is silent,
# costs one attempt and does not make Redis unavailable; a good one is tried
# first again. IPv6 only, and both families.

use lib 't/lib';
use IO::Select;
use IO::Socket::INET;

use Dsem::Test;

my $t = Dsem::Test->new;
my $redis = $t->redis(args => [ '--bind',
    '127.0.0.3', '127.0.0.4', '127.0.0.8', '::1' ]);
my $port = $redis->port;
my $up = $t->upstream;
my $dns = $t->dns(
    'refused.dsem.test' => [ '127.0.0.3', '127.0.0.1', '127.0.0.2' ],
    'many.dsem.test' => [ map { "127.0.0.$_" } 8, 1, 2,
        5 .. 7, 10, 11 ],
    'same.dsem.test' => [ '127.0.0.4', '127.0.0.3' ],
    'silent.dsem.test' => [ '127.0.0.3', '127.0.0.2' ],
    'six.dsem.test' => [ '::1' ],
    'both.dsem.test' => [ '::1', '127.0.0.1' ],
);

my $conf = <<'EOF_CONF';
%%GLOBALS%%
error_log %%DIR%%/debug.log debug;
worker_processes 4;
events { }
http {
    %%HTTP%%
    dsem_redis %%HOST%%:%%REDIS_PORT%%;
    dsem_redis_connect_timeout 2s;
    resolver %%DNS%%;
    dsem_node %%NODE%%;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / {
            dsem api limit=1 queue=5;
            proxy_pass http://%%UPSTREAM%%;
        }
    }
}
EOF_CONF

sub connected {
    my ($name, $host, $addr) = @_;
    my $began = now;
    my $node = $t->node($name, $conf, HOST => $host, REDIS_PORT => $port);
    eventually {
        $node->grep_log(qr/connected to redis \Q$addr\E:$port /) == 4;
    } "$host: connected to $addr";
    note sprintf '%s: %.3f s', $host, now - $began;
    is $node->get('/?t=1')->status, 200, "$host: request served";
    return $node;
}

my $node = connected('refused', 'refused.dsem.test', '127.0.0.3');
refused($node, 8, 'two attempts of each worker failed');
my ($last) = sort { $b <=> $a } clients();
$redis->client_kill;
eventually { 8 == grep { $_ > $last } clients() } 'connected again';
refused($node, 8, 'good address tried first again');
ok !$node->grep_log(qr/unavailable \(/), 'refused: never unavailable';

$node = connected('many', 'many.dsem.test', '127.0.0.8');
ok !$node->grep_log(qr/unavailable \(/), 'many: never unavailable';
connected('same', 'same.dsem.test', '127.0.0.3');

connected('six', 'six.dsem.test', '[::1]');
connected('both', 'both.dsem.test', '[::1]');
connected('number', '[::1]', '[::1]');

# nothing accepts a connection: its queue is full

my $listen = IO::Socket::INET->new(LocalAddr => '127.0.0.2',
    LocalPort => $port, Proto => 'tcp', Listen => 1, ReuseAddr => 1)
    or die "listen: $!";
my @full;
wait_for {
    push @full, IO::Socket::INET->new(PeerAddr => "127.0.0.2:$port",
        Blocking => 0, Timeout => undef);
    !IO::Select->new($full[-1])->can_write(0.1);
} 15, 'full queue';
$node = connected('silent', 'silent.dsem.test', '127.0.0.3');
ok !$node->grep_log(qr/unavailable \(/), 'silent address: never unavailable';
close $_ for @full, $listen;

# attempts of the workers; only the debug log has them
sub refused {
    my ($node, $n, $name) = @_;
    SKIP: {
        skip 'nginx without debug', 1 if !$node->debug;
        open my $log, '<', $node->dir . '/debug.log' or die "debug.log: $!";
        is scalar(grep { /dsem redis down: .*refused/ } <$log>), $n, $name;
    }
}

# connections of the workers, by number: a new one has a higher number
sub clients {
    return $redis->cmd(qw(CLIENT LIST)) =~ /^id=(\d+) .* name=dsem-/mg;
}

$t->done;
