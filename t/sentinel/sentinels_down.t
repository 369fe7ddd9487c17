#!/usr/bin/perl

# The sentinels are down. A worker with a master goes on, also after the loss
# of its connection, and logs once that it follows no failover; a worker
# without one logs the cause. Both ask again at a bounded rate, and follow the
# sentinels as soon as these reply.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new(lease => 2);
my $set = $t->sentinel(servers => 1, sentinels => 0);
my $other = $t->redis;
my $up = $t->upstream;
my $master = $set->master;
my @sentinel = map { $set->watch('mymaster', $master->address) } 1 .. 2;
my @way = map { $t->proxy($_->address) } @sentinel;

my $conf = <<'EOF_CONF';
worker_processes 1;
dsem_redis %%SENTINELS%% mode=sentinel master=%%MASTER%%;
dsem_redis_connect_timeout 3s;
# so that pauses are short
dsem_lease 2s;
dsem_redis_timeout 1s;
server {
    listen 127.0.0.1:%%PORT%%;
    location / {
        dsem api limit=2 queue=10;
        proxy_pass http://%%UPSTREAM%%;
    }
}
EOF_CONF

sub sessions { Dsem::State->new($_[0])->session_count }

my $node = $t->node('a', $conf,
    SENTINELS => join ' ', map { $_->address } @way);
eventually { sessions($master) == 1 } 'session at the master';

# with a master

$_->stop for @sentinel;
my $lost = qr/\[warn\].* no sentinel names the master "mymaster" \(sentinel /;
eventually { $node->grep_log($lost) } 'loss of the sentinels logged';
$master->client_kill;
is $node->get('/?t=1')->status, 200, 'request served on a new connection';
is scalar($node->grep_log(qr/\[(?:warn|error)\]/)), 1, 'one line';

# without one

my $late = $t->node('late', $conf,
    SENTINELS => join ' ', map { $_->address } @way);
my $why = qr/redis mymaster unavailable \(sentinel \S+: \S/;
eventually { $late->grep_log($why) } 'cause logged';
is $late->get('/?t=1')->status, 200, 'request handled by dsem_on_error';
is scalar($late->grep_log(qr/\[(?:warn|error)\]/)), 1, 'one line';

# both, when the first pauses are over

my $began = now;
wait_for { now > $began + 0.5 } 15, 'longer pauses';
# one of each worker at once, and then with pauses of 0.22 s at least
my ($from, $before) = (now, $way[0]->accepted);
eventually { $way[0]->accepted >= $before + 10 } 'retried';
my $n = $way[0]->accepted - $before;
cmp_ok $n, '<=', 2 * (1 + (now - $from) / 0.21),
    'few attempts of the two workers';

# they are back, and name another master

$_->start for @sentinel;
my $started = now;
$set->name_master($_, 'mymaster', $other->address) for @sentinel;
eventually { sessions($other) == 2 } 'sessions at the new master';
cmp_ok took($started), '<', 4, 'soon';
is scalar($node->grep_log(qr/ failovers of "mymaster" are followed again/)),
    1, 'return of the sentinels logged';
is $_->get('/?t=1')->status, 200, 'request served' for $node, $late;

$t->done;
