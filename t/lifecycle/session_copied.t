#!/usr/bin/perl

# A running machine is copied: two workers have one session, and the other one
# has sent hello with a later epoch. The worker takes another name, declares its
# request, and goes on; neither voids what the other one has declared.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $up = $t->upstream;

my $node = $t->node('a', <<'EOF_CONF');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    dsem_redis %%REDIS%%;
    dsem_lease 1m;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / {
            dsem api limit=3 queue=2 timeout=10s;
            proxy_pass http://%%UPSTREAM%%;
        }
    }
}
EOF_CONF

my $state = $t->state;
my $request = $node->begin('/?hang=1');
wait_for { $up->now == 1 } 15, 'one request running';
my ($session) = $state->sessions;

my $entry = $redis->cmd('HGET', $state->key, $session);
$redis->cmd('HSET', $state->key, $session, $entry =~ s/^\d+ \d+/99 99/r);

eventually { $state->session_count == 2 } 'another session';
my ($other) = grep { $_ ne $session } $state->sessions;
eventually { ($state->account('api', $other) // {})->{held} }
    'request declared';
is $state->entry($session)->{epoch}, 99, 'session of the copy kept';
is $node->get('/?t=1')->status, 200, 'requests are served';
is scalar($node->grep_log(qr/resynchronizing/)), 1, 'one attempt';

$up->release_all;
is $request->wait->status, 200, 'long request served';
$state->lapse($session);

$t->done;
