#!/usr/bin/perl

# A subrequest to the pool of its main request, after the server has responded:
# with "dsem_release log" it has the permit and the server of the main request,
# without it the permit has been released.

use lib 't/lib';
use Dsem::Test;

my $nginx = $ENV{DSEM_NGINX} // 'nginx';
plan skip_all => 'nginx without its addition module'
    unless qx($nginx -V 2>&1) =~ /http_addition_module/;

my $t = Dsem::Test->new;
$t->redis;
my @up = map { $t->upstream } 1, 2;
my ($first, $second) = map { $_->address } @up;

my $node = $t->node('n1', <<"EOF_CONF");
worker_processes 1;
dsem_reuse off;
addition_types *;
upstream pool {
    server $first;
    server $second;
    dsem pool limit=1/server queue=10 timeout=1m;
}
server {
    listen 127.0.0.1:%%PORT%%;
    location /log {
        dsem_release log;
        add_after_body /part;
        proxy_pass http://pool;
    }
    location /response {
        add_after_body /part;
        proxy_pass http://pool;
    }
    location /part {
        proxy_pass http://pool/part?hang=1;
    }
}
EOF_CONF

for my $release ('log', 'response') {
    $_->reset for @up;
    my $page = $node->begin("/$release");
    eventually { 1 == $up[0]->now + $up[1]->now
        && 1 == grep { $_->{uri} eq '/part?hang=1' } all() }
        "$release: subrequest at a server";
    my $held = $release eq 'log' ? 1 : 0;
    eventually { $t->state->counts('pool') eq "$held 0" } "permits: $held";
    is(scalar(grep { $_->started == 2 } @up), 1, 'at the same server')
        if $held;
    $_->release_all for @up;
    is($page->wait->status, 200, 'request served');
    eventually { $t->state->counts('pool') eq '0 0' } 'permit released';
}

like($node->error_log, qr/\[warn\].* subrequest to upstream "pool" has no per/,
    'the worker warns');

done_testing();

sub all { return map { $_->log } @up }
