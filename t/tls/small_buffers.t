#!/usr/bin/perl

# Commands do not fit into the buffers of the sockets, and are written in
# pieces while replies arrive in pieces: all of each command is sent. hiredis
# alone would wait for bytes of a server that waits for the rest of a command.
# The sizes are those of a network namespace, which needs root.

use lib 't/lib';
use Dsem::Test;
use Dsem::Tls;

my $SIZES = '/proc/sys/net/ipv4/tcp_';

if (!$ENV{DSEM_SMALL_BUFFERS}) {
    plan(skip_all => 'no network namespace')
        if system 'unshare --net ip link set lo up 2>/dev/null';
    $ENV{DSEM_SMALL_BUFFERS} = 1;
    exec 'unshare', '--net', 'sh', '-c', 'ip link set lo up; exec "$@"', 'sh',
        $^X, $0 or die "unshare: $!";
}

my $t = Dsem::Test->new;
my $tls = Dsem::Tls->new($t);
for my $size ([ wmem => '4096 4096 4096' ], [ rmem => '2304 2304 2304' ]) {
    open my $fh, '>', "$SIZES$size->[0]"
        or plan(skip_all => "$SIZES$size->[0]: $!");
    print $fh "$size->[1]\n";
    close $fh;
}
my $redis = $tls->redis;
my $up = $t->upstream;

my ($holds, $waits) = $t->fleet(2, <<'EOF_CONF', TLS => $tls->to($redis));
worker_processes 1;
dsem_redis %%TLS%%;
dsem_on_error reject;
location / {
    dsem api limit=2 queue=100 timeout=20s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

for my $round (1 .. 3) {
    my $result = $t->load(urls => [ map { $_->url('/?t=5') } $holds, $waits ],
        clients => 20, requests => 100);
    is_deeply $result->{statuses}, { 200 => 100 }, "$round: all served";
    # all scripts are loaded again
    $redis->cmd(qw(SCRIPT FLUSH));
    $redis->client_kill;
}
is $up->peak, 2, 'limit reached, never exceeded';
is scalar(map { $_->grep_log(qr/unavailable \(/) } $holds, $waits), 0,
    'Redis always available';

$t->done;
