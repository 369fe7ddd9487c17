#!/usr/bin/perl

# Redis before 7.0 wraps the error of a command in one of the script. One that
# says that Redis is no master for a moment rejects no request there, either,
# and the log has the cause and not the script.

use lib 't/lib';
use Dsem::Test;

# as Redis 6.2 does
my $ERROR = '-ERR Error running script (call to f_' . '6b1bf486' x 5 . '): '
    . '@user_script:70: @user_script: 70: -READONLY You can\'t write against '
    . "a read only replica. \r\n";

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $proxy = $t->proxy($redis->address);
my $up = $t->upstream;
my $node = $t->node('a', <<'EOF_CONF', REDIS => $proxy->address);
worker_processes 1;
dsem_redis_connect_timeout 60s;
dsem_on_error reject;
location / {
    dsem api limit=1 queue=10 timeout=60s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

my $first = $node->begin('/?hang=1');
wait_for { $up->now == 1 } 15, 'one at the backend';
my $second = $node->begin('/');
wait_for { $t->state->waiting('api') == 1 } 15, 'one waits';
# the connection has been good
$redis->beats(2);

# a command does not reach Redis, and has this reply
my ($epoch) = values %{ $t->state->epochs };
$proxy->swallow(every => 1, match => 'EVALSHA', dir => 'c2s');
my $third = $node->begin('/');
wait_for { $proxy->swallowed } 15, 'command not executed';
$proxy->swallow;
$proxy->inject($ERROR);

eventually { $node->grep_log(qr/redis \S+ lost \(READONLY You can't/) == 1 }
    'cause in the log';
eventually { (values %{ $t->state->epochs })[0] > $epoch } 'connected again';
$up->release(1);
is_deeply [ map { $_->wait->status } $first, $second, $third ],
    [ (200) x 3 ], 'all served';
is scalar($node->grep_log(qr/dsem: redis .*(?:unavailable|Error running)/)), 0,
    'never unavailable';

$t->done;
