#!/usr/bin/perl

# A single process reads its configuration anew, with another resolver: the name
# is asked of this one from then on.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new(lease => 2);
my $redis = $t->redis;
my $port = $redis->port;
my $moved = $t->redis(args => [ '--bind', '127.0.0.2', '--port', $port ]);
my $up = $t->upstream;
my $old = $t->dns('redis.dsem.test' => [ '127.0.0.1' ]);
my $new = $t->dns('redis.dsem.test' => [ '127.0.0.2' ]);

my $conf = <<'EOF_CONF';
daemon off;
master_process off;
%%GLOBALS%%
events { }
http {
    %%HTTP%%
    dsem_redis redis.dsem.test:%%REDIS_PORT%%;
    resolver %%ASKED%%;
    dsem_node %%NODE%%;
    dsem_redis_timeout 2s;
    dsem_lease 2s;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / {
            dsem api limit=5 queue=5;
            proxy_pass http://%%UPSTREAM%%;
        }
    }
}
EOF_CONF
my $changed = $conf =~ s/%%ASKED%%/%%DNS%%/r;

my $node = $t->node('a', $conf, REDIS_PORT => $port, ASKED => $old->address);
eventually { $node->grep_log(qr/connected to redis 127\.0\.0\.1:$port /) }
    'connected';

# nginx then has only those connections that become free

my @running = map { $node->begin('/?hang=1') } 1 .. 5;
wait_for { $up->now == 5 } 15, 'requests at the backend';
$node->write_conf($changed);
$node->signal('HUP');
eventually { $node->grep_log(qr/\] \d+#\d+: reconfiguring/) }
    'configuration read anew';
$up->release_all;
$_->close for @running;
eventually { $up->now == 0 } 'connections free';

my $questions = $old->questions;
$redis->client_kill;
eventually { $moved->cmd(qw(CLIENT LIST)) =~ / name=dsem-a-\S+-messages / }
    'connected to the other server';
is $old->questions, $questions, 'old resolver not asked';
# what it had at the old server stays there for a lease
my $left = Dsem::State->new($redis);
$left->lapse($left->sessions);
cmp_ok $new->questions, '>', 0, 'new resolver asked';
ok !$node->grep_log(qr/not resolved/), 'no failure';
ok $node->alive, 'process alive';

# a configuration without a resolver: the last known addresses

$node->write_conf($conf =~ s/resolver .*//r
    =~ s/redis\.dsem\.test/127.0.0.1/r);
$node->clear_logs;
$node->signal('HUP');
eventually { $node->grep_log(qr/\] \d+#\d+: reconfiguring/) }
    'configuration without a resolver';
$questions = $new->questions;
my $id = client();
$moved->client_kill;
eventually { client() && client() ne $id } 'connected again';
is $new->questions, $questions, 'no resolver asked';
ok $node->alive, 'process alive';

sub client {
    my ($id) = $moved->cmd(qw(CLIENT LIST))
        =~ /^id=(\d+) .* name=dsem-a-\S*(?<!-messages) /m;
    return $id;
}

$t->expect_log(qr/worker_connections are not enough/);
$t->done;
