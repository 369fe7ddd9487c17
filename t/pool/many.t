#!/usr/bin/perl

# A pool of 64 servers: each of them has its permit out at once, in the hands
# of one worker, and the API counts them all.

use lib 't/lib';
use Cpanel::JSON::XS qw(decode_json);
use Dsem::Test;

my $SERVERS = 64;

my $t = Dsem::Test->new;
$t->redis;
my $up = $t->upstream(ports => $SERVERS);
my @addresses = $up->addresses;
my $servers = join ' ', map { "server $_;" } @addresses;

my $conf = <<'EOF_CONF';
worker_processes 1;
upstream gpus {
    SERVERS
    dsem gpus limit=1/server queue=10 timeout=60s;
}
server {
    listen 127.0.0.1:%%PORT%%;
    proxy_set_header X-Sem $dsem_server;
    add_header X-Server "$dsem_server $upstream_addr";
    location / {
        proxy_pass http://gpus;
    }
    location /dsem/ {
        dsem_api;
    }
}
EOF_CONF

my ($one, $two) = $t->fleet(2, $conf =~ s/SERVERS/$servers/r);
my @held = map { $one->begin('/?hang=1') } @addresses;
eventually { $up->now == $SERVERS } 'all are taken';
is scalar(grep { $up->now($_) == 1 } @addresses), $SERVERS, 'each once';
my $waits = $two->begin('/?t=1');
eventually { $t->state->waiting('gpus') == 1 } 'one more waits';

# the page of the other node is of the whole fleet
eventually {
    my $all = decode_json($two->get('/dsem/semaphores')->body);
    my ($pool) = grep { $_->{name} eq 'gpus' } @{ $all->{semaphores} };
    my %in_use = map { $_->{node} => $_->{in_use} } @{ $pool->{nodes} };
    $pool->{in_use} == $SERVERS && ($in_use{ $one->name } // 0) == $SERVERS;
} 'the API counts them by node';

$up->release_all;
is scalar(grep { $_->wait->header('X-Server') =~ /^(\S+) \1$/ } @held, $waits),
    $SERVERS + 1, 'each was at its server';
is $up->peak, $SERVERS, 'limit reached, not exceeded';

my ($status, $output) = $t->test_conf(
    $conf =~ s/SERVERS/$servers server 127.0.0.1:1;/r);
isnt $status, 0, 'one more is refused';
like $output, qr/"gpus" with "dsem" has 65 servers .*at most 64/,
    'with the reason';

$t->done;
