#!/usr/bin/perl

# A client that takes a long answer slowly gets it once: an answer that waits for
# its client is not one that has more to be written.

use lib 't/lib';
use Cpanel::JSON::XS qw(decode_json);

use Dsem::Test;

my $NAMES = 300;

my $t = Dsem::Test->new;
$t->redis;
my $node = $t->node('a', <<'EOF_CONF');
server {
    listen 127.0.0.1:%%PORT%% sndbuf=4k;
    location / {
        dsem "name$arg_n" limit=4 queue=1;
        empty_gif;
    }
    location /dsem/ { dsem_api; }
}
EOF_CONF

my $load = $t->load(clients => 10, requests => $NAMES,
    request => sub { $node->url("/?n=$_[0]") });
is_deeply $load->{statuses}, { 200 => $NAMES }, 'all served';

my %body;
for my $path (qw(/dsem/semaphores /dsem/metrics)) {
    my $raw = $node->raw;
    $raw->send("GET $path HTTP/1.1\r\nHost: localhost\r\n"
        . "Connection: close\r\n\r\n");
    my $answer = $raw->read_until(qr/(?!)/);
    my ($length) = $answer =~ /^Content-Length: (\d+)\r$/m;
    $body{$path} = $answer =~ s/.*?\r\n\r\n//sr;
    is length $body{$path}, $length, "$path: all of it, once";
}
is @{ decode_json($body{'/dsem/semaphores'})->{semaphores} }, $NAMES,
    'all names in JSON';
is scalar(() = $body{'/dsem/metrics'} =~ /^dsem_node_waiting_requests\{/mg),
    $NAMES + 1, 'and in the metrics, with the others';

$t->done;
