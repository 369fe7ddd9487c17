#!/usr/bin/perl

# "user", "password" and "db": commands and messages travel as that user, and
# the keys are in that database. A wrong password, a missing one, and a
# database that does not exist are named once, and nothing waits for them.

use lib 't/lib';
use Dsem::State;
use Dsem::Test;

# users of its own
delete $ENV{DSEM_ACL};

my $t = Dsem::Test->new;
my $up = $t->upstream;
my $redis = $t->redis;
$redis->cmd(qw(ACL SETUSER app on), '>pass word', qw(~* &* +@all));

my $conf = <<'EOF_CONF';
worker_processes 1;
dsem_redis %%REDIS%% %%LOGIN%%;
location / {
    dsem api limit=1 queue=10;
    dsem_on_error reject;
    dsem_status 503 error=500;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

sub node {
    my ($name, $login) = @_;
    return $t->node($name, $conf, LOGIN => $login);
}

# a user with a password, and a database

my $node = node('user', 'user=app "password=pass word" db=3');
my $held = $node->begin('/?hang=1');
wait_for { $up->now == 1 } 15, 'one at the backend';
my $queued = $node->begin('/');
my $client = $redis->client;
$client->cmd(SELECT => 3);
eventually { Dsem::State->new($client)->waiting('api') == 1 }
    'counted in the database';
is $redis->cmd('DBSIZE'), 0, 'nothing in another one';
my @users = grep { /^lib-name=|name=dsem-/ } split /\n/,
    $redis->cmd(qw(CLIENT LIST));
is scalar(grep { /user=app / } @users), 2, 'both connections as the user';
$up->release(1);
is $held->wait->status, 200, 'the first answered';
is $queued->wait->status, 200, 'the second answered';
is_deeply [$node->grep_log(qr/\[(?:warn|error)\]/)], [], 'no error';
$redis->client_kill;
$client = $redis->client;
eventually { $node->get('/')->status == 200 } 'after a reconnect too';
$node->stop;

# the default user

$redis->cmd(qw(CONFIG SET requirepass), 'other');
$client->cmd(AUTH => 'other');
$node = node('default', 'password=other');
is $node->get('/')->status, 200, 'the default user with a password';
$node->stop;

# what does not work

for my $case (
    ['wrong', 'user=app password=guess', qr/WRONGPASS/],
    ['none', '', qr/NOAUTH/],
    ['db', 'password=other db=16000', qr{ERR DB index is out of range}],
) {
    my ($name, $login, $error) = @$case;
    $node = node($name, $login);
    my $asked = $node->get('/');
    is $asked->status, 500, "$name: refused";
    eventually { $node->grep_log(qr/\[error\].*unavailable \($error/) }
        "$name: cause in the log";
    # by the time to connect it would be two seconds
    cmp_ok $node->get('/')->took, '<', 1, "$name: no wait";
    is scalar($node->grep_log(qr/\[error\].*dsem: /)), 1,
        "$name: one line of the log";
    $node->stop;
}
$redis->cmd(qw(CONFIG SET requirepass), '');

# an older server knows no users

my $old = $t->redis(args => ['--rename-command', 'AUTH', '']);
$node = node('old', 'user=app password=guessed');
is $node->get('/')->status, 500, 'no AUTH: refused';
eventually { $node->grep_log(
        qr/\[error\].*unavailable \(ERR unknown command 'AUTH'\)/) }
    'no AUTH: cause in the log';
is scalar($node->grep_log(qr/guessed/)), 0, 'no AUTH: no password in the log';

$t->done;
