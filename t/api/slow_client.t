#!/usr/bin/perl

# A client that takes a long answer slowly gets it once: an answer that waits for
# its client is not one that has more to be written. That of a few names is written
# in one turn of the event loop, that of many in several.

use lib 't/lib';
use Cpanel::JSON::XS qw(decode_json);

use Dsem::Test;

my $t = Dsem::Test->new;
$t->redis;
my $conf = <<'EOF_CONF';
server {
    listen 127.0.0.1:%%PORT%% sndbuf=4k;
    location / {
        dsem "name$arg_n" limit=4 queue=1;
        empty_gif;
    }
    location /dsem/ { dsem_api; limit_rate %%RATE%%; }
}
EOF_CONF

# names, and bytes a second: few are less than what a socket has room for
for ([ 10, '6k' ], [ 300, 0 ]) {
    my ($names, $rate) = @$_;
    my $node = $t->node("n$names", $conf, RATE => $rate);
    my $load = $t->load(clients => 10, requests => $names,
        request => sub { $node->url("/?n=$_[0]") });
    is_deeply $load->{statuses}, { 200 => $names }, "$names: all served";

    my %body;
    for my $path (qw(/dsem/semaphores /dsem/metrics)) {
        my $raw = $node->client->raw('127.0.0.1', $node->port, rcvbuf => 4096);
        $raw->send("GET $path HTTP/1.1\r\nHost: localhost\r\n"
            . "Connection: close\r\n\r\n");
        my $answer = $raw->read_until(qr/(?!)/);
        my ($length) = $answer =~ /^Content-Length: (\d+)\r$/m;
        $body{$path} = $answer =~ s/.*?\r\n\r\n//sr;
        is length $body{$path}, $length, "$names: $path: all of it, once";
    }
    is @{ decode_json($body{'/dsem/semaphores'})->{semaphores} }, $names,
        "$names: all names in JSON";
    is scalar(() = $body{'/dsem/metrics'} =~ /^dsem_node_waiting_requests\{/mg),
        $names + 1, "$names: and in the metrics, with the others";
}

$t->done;
