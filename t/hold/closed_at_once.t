#!/usr/bin/perl

# A client sends its request and closes its side of the connection before nginx
# has read anything: there is no later event of that. A permit that is granted
# without a wait goes back all the same.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
my $redis = $t->redis;

my $node = $t->node('a', <<'EOF_CONF');
worker_processes 1;
location /jobs {
    dsem jobs limit=2 queue=10;
    dsem_hold;
}
location /trial {
    dsem trial limit=2;
    dsem_dry_run on;
    dsem_hold;
}
location /outage {
    dsem outage limit=2;
    dsem_on_error pass;
    dsem_hold;
}
EOF_CONF

closed_at_once('/jobs', 'granted by Redis');
closed_at_once('/trial', 'dry run');

$redis->stop;
wait_for { $node->grep_log(qr/unavailable \(/) } 15, 'redis unavailable';
closed_at_once('/outage', 'redis unavailable');
$redis->start;

$t->done;

sub closed_at_once {
    my ($path, $name) = @_;
    $node->clear_logs;
    $node->freeze;
    my $raw = $node->raw;
    $raw->send("GET $path HTTP/1.1\r\nHost: x\r\n\r\n");
    $raw->shutdown;
    $node->thaw;
    eventually { ended($path) } "$name: the hold has ended";
    $raw->close;
}

sub ended {
    my ($path) = @_;
    return scalar grep { $_->{request_uri} eq $path } $node->access_log;
}
