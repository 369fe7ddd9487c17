#!/usr/bin/perl

# A fleet under load with TLS to Redis: the limit is reached and never exceeded,
# every request is served, also while all connections are killed.

use lib 't/lib';
use Dsem::Test;
use Dsem::Tls;

my $LIMIT = 10;
my $REQUESTS = $ENV{DSEM_LONG} ? 9000 : 1200;

my $t = Dsem::Test->new;
my $tls = Dsem::Tls->new($t);
my $redis = $tls->redis;
my $up = $t->upstream;

my @fleet = $t->fleet(3, <<'EOF_CONF', TLS => $tls->to($redis));
worker_processes 2;
worker_connections 1024;
dsem_redis %%TLS%%;
location /capped {
    dsem backend limit=10 queue=300 timeout=30s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

my $load = $t->load_start(urls => [ map { $_->url('/capped?t=20') } @fleet ],
    clients => 100, requests => $REQUESTS, keepalive => 1);
wait_for { $up->served > $REQUESTS / 4 } 30, 'a part served';
$redis->client_kill;
wait_for { $up->served > $REQUESTS / 2 } 30, 'one half served';
$redis->client_kill;

my $result = $load->wait;
is_deeply $result->{statuses}, { 200 => $REQUESTS }, 'every answer 200';
is $result->{mismatched}, 0, 'each response complete';
is $up->peak, $LIMIT, 'peak is the limit';
is $up->served, $REQUESTS, 'each request served once';
is scalar(map { $_->grep_log(qr/\[(?:warn|error|alert|crit)\]/) } @fleet), 0,
    'no warning logged';

$t->done;
