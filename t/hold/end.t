#!/usr/bin/perl

# What ends a hold beside the client: its longest time, a worker that may not
# wait for ever, a worker that stops. The client is told. A reload ends none.
# A "send_timeout" that is longer than the system can take logs no alert.

use lib 't/lib';
use Dsem::Test;

# nginx of 32 bits knows no longer one than 24 days
my $LONG = length(pack 'L!', 0) == 8 ? '30d' : '24d';

my $t = Dsem::Test->new(lease => 2);
my $redis = $t->redis;

my $conf = <<'EOF_CONF';
%%GLOBALS%%
worker_processes 2;
%%SHUTDOWN%%
events { }
http {
    %%HTTP%%
    dsem_redis %%REDIS%%;
    dsem_node %%NODE%%;
    dsem_lease 2s;
    server {
        listen 127.0.0.1:%%PORT%%;
        location /jobs {
            dsem jobs limit=20 queue=10;
            dsem_hold;
        }
        location /short {
            dsem short limit=1 queue=10;
            send_timeout %%LONG%%;
            dsem_hold max=500ms;
        }
    }
}
EOF_CONF

my $node = $t->node('a', $conf, SHUTDOWN => '', LONG => $LONG);

# its longest time

my $begun = now;
my $short = $node->hold('/short');
my $next = $node->begin('/short');
like $short->read_eof, qr/expired\n\r\n0\r\n\r\n\z/, 'told that it is over';
cmp_ok now - $begun, '>=', 0.45, 'not before';
is $next->wait->body, "granted\nexpired\n",
    'the next one has it, and ends as well';

# an old worker keeps its holders, and they count

my @jobs = map { $node->hold('/jobs') } 1 .. 10;
$node->reload;
push @jobs, map { $node->hold('/jobs') } 1 .. 5;
$node->reload;
$redis->beats(8, 'two heartbeats of each worker');
is $t->state->held('jobs'), 15, 'all are counted';
# an empty line may have come
is scalar(grep { $_->read(0); $_->eof } @jobs), 0, 'none has ended';
ok scalar($node->draining), 'old workers stay';
$_->close for @jobs;
wait_for { !$node->draining } 15, 'the end of the old workers';

# "worker_shutdown_timeout": told before nginx closes the connection

$node->reload($conf =~ s/%%SHUTDOWN%%/worker_shutdown_timeout 2s;/r);
@jobs = map { $node->hold('/jobs') } 1 .. 3;
$node->reload;
like $_->read_eof, qr/closing\n\r\n0\r\n\r\n\z/, 'told that nginx goes'
    for @jobs;
eventually { !$t->state->held('jobs') }
    'permits back';

# a worker that stops at once

@jobs = map { $node->hold('/jobs') } 1 .. 3;
$node->signal('TERM');
like $_->read_eof, qr/closing\n/, 'told that nginx stops' for @jobs;
wait_for { !$node->alive } 15, 'the end';
eventually { $t->state->session_count == 0 } 'permits back';

$t->done;
