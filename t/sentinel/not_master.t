#!/usr/bin/perl

# A sentinel names a server that is no master, or that refuses writes for want
# of replicas. Redis is unavailable, with this cause in the log; no script is
# called on a replica. A server that becomes the master, or another one that
# is named, is used soon.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new(lease => 2);
my $set = $t->sentinel(servers => 2, sentinels => 0);
my $up = $t->upstream;
my ($master, $replica) = $set->servers;
my $guide = $set->watch('mymaster', $replica->address);

my $node = $t->node('a', <<'EOF_CONF', SENTINELS => $guide->address);
worker_processes 1;
dsem_redis %%SENTINELS%% mode=sentinel master=%%MASTER%%;
# so that pauses are short
dsem_lease 2s;
dsem_on_error reject;
dsem_status 503 error=500;
server {
    listen 127.0.0.1:%%PORT%%;
    location / {
        dsem api limit=2 queue=10;
        proxy_pass http://%%UPSTREAM%%;
    }
}
EOF_CONF

sub errors { $node->grep_log(qr/\[(?:warn|error)\].* dsem: redis/) }
sub unavailable { $node->grep_log(qr/ unavailable \($_[0]/) }
sub back { $node->grep_log(qr/ available again after/) }

eventually { unavailable('server is a replica') } 'replica: cause logged';
is $node->get('/')->status, 500, 'replica: request rejected';
my $asked = $replica->calls->{info};
wait_for { $replica->calls->{info} >= $asked + 5 } 15, 'more attempts';
is scalar(errors()), 1, 'replica: one line';
ok !$replica->calls->{evalsha}, 'replica: no script called';

$replica->cmd(qw(REPLICAOF NO ONE));
my $promoted = now;
eventually { back() == 1 } 'promoted: available again';
cmp_ok took($promoted), '<', 2, 'promoted: soon';
is $node->get('/?t=1')->status, 200, 'promoted: request served';

$node->clear_logs;
$replica->cmd(qw(CONFIG SET min-replicas-to-write 1));
eventually { unavailable('NOREPLICAS ') } 'no replicas: cause logged';
is $node->get('/')->status, 500, 'no replicas: request rejected';
is scalar(errors()), 1, 'no replicas: one line';

$set->name_master($guide, 'mymaster', $master->address);
my $named = now;
eventually { back() == 1 } 'another master: available again';
cmp_ok took($named), '<', 2, 'another master: soon';
is $node->get('/?t=1')->status, 200, 'another master: request served';
is(Dsem::State->new($master)->session_count, 1, 'session at that master');

$t->done;
