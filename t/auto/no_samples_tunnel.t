#!/usr/bin/perl

# Tunnels are no samples, as they last as long as their clients like, whether the
# client ends them or nginx, because there is no traffic. Needs nginx 1.31.

use lib 't/lib';
use IO::Socket::INET;

use Dsem::Test;
use Dsem::Wait qw(poll);

plan skip_all => 'no "tunnel_pass" before nginx 1.31'
    unless nginx_since('1.31');

my $t = Dsem::Test->new;
my $redis = $t->redis;

# speaks no HTTP
my $server = IO::Socket::INET->new(LocalAddr => '127.0.0.1', Listen => 10,
    Proto => 'tcp') // die "listen: $!";

my $node = $t->node('a', <<"EOF_CONF");
worker_processes 1;
server {
    listen 127.0.0.1:%%PORT%%;
    dsem api limit=auto queue=20;
    tunnel_pass 127.0.0.1:@{[ $server->sockport ]};
    tunnel_read_timeout 500ms;
}
EOF_CONF

sub tunnel {
    my $raw = $node->raw;
    $raw->send("CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n");
    return $raw, scalar $server->accept;
}

my ($idle, $backend) = tunnel();
$idle->read_eof;
$_->close for $backend, $idle;

my ($left, $other) = tunnel();
my $long = now + 0.6;
wait_for { syswrite $other, 'x'; now > $long } 15, 'a long one';
$_->close for $left, $other;
eventually { ($t->state->held('api') // 0) == 0 } 'both have ended';

# a sample takes 100 ms at most to be sent
ok !poll(sub { $redis->cmd('EXISTS', $t->state->auto_key('api')) }, 0.5),
    'no sample';

$t->done;
