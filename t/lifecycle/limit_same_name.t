#!/usr/bin/perl

# Two nodes of one name have different limits: the one with the higher limit
# says so, once. A reload that raises the limit of the only node says nothing
# of its old workers.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
$t->redis;
my $up = $t->upstream;

my $conf = <<'EOF_CONF';
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    dsem_redis %%REDIS%%;
    dsem_node same;
    dsem_reuse off;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / {
            dsem api limit=%%LIMIT%% queue=5;
            proxy_pass http://%%UPSTREAM%%;
        }
    }
}
EOF_CONF

my $high = $t->node('high', $conf, LIMIT => 4);
is $high->get('/')->status, 200, 'served';
my $held = $high->begin('/?hang=1');
wait_for { $up->now == 1 } 15, 'one at the backend';
# old workers stay for the request
$high->reload($conf =~ s/%%LIMIT%%/5/r);
$high->get('/') for 1 .. 3;
is scalar($high->grep_log(qr/limit of/)), 0, 'reload: no line';

my $low = $t->node('low', $conf, LIMIT => 2);
eventually {
    $high->get('/');
    $high->grep_log(qr/\[warn\].*dsem: limit of "api" is 2 in force \(another node same asks for it\), this node asks for 5/);
} 'the other node named';
$high->get('/') for 1 .. 3;
is scalar($high->grep_log(qr/limit of/)), 1, 'once';
is scalar($low->grep_log(qr/limit of/)), 0, 'not by the lower one';
$up->release_all;
is $held->wait->status, 200, 'the end';

$t->done;
