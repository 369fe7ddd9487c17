#!/usr/bin/perl

# Permits are kept and recalled all the time while load swells and ebbs on all
# nodes. The limit is reached and never exceeded, and every request is served.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $up = $t->upstream;
my $LIMIT = 8;

my @node = $t->fleet(2, <<'EOF_CONF');
worker_processes 2;
dsem_reuse 2s;
location / {
    dsem api limit=8 queue=1000 timeout=30s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

wait_for { $t->state->session_count == 4 } 15, 'sessions open';
my @urls = map { $_->url('/?t=5') } @node;

# while no request waits, permits pass from request to request

my $calls = $redis->calls->{evalsha};
$t->load(urls => \@urls, clients => 2, requests => 400, keepalive => 1);
my $quiet = $redis->calls->{evalsha} - $calls;
cmp_ok($quiet, '<', 400, 'fewer commands than requests');
note "$quiet commands for 400 quiet requests";

for my $round (1 .. 3) {
    my $few = $t->load(urls => \@urls, clients => 2, requests => 100,
        keepalive => 1);
    is_deeply($few->{statuses}, { 200 => 100 }, "$round: ebb, all served");

    my $many = $t->load(urls => \@urls, clients => 40, requests => 200,
        keepalive => 1);
    is_deeply($many->{statuses}, { 200 => 200 }, "$round: flood, all served");
}

is($up->peak, $LIMIT, 'limit reached, never exceeded');
cmp_ok(scalar(grep { $_->{dsem_status} eq 'QUEUED' }
    map { $_->access_log } @node), '>', 100, 'many requests queued');

# idle permits stay for two seconds
$_->quit for @node;

$t->done;
