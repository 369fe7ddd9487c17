#!/usr/bin/perl

# A worker asks the sentinels for the master, with the password of the
# sentinels, and connects to it, with the password of Redis. A sentinel that is
# down costs nothing; a wrong password or an unknown master is logged once, with
# its cause.

use lib 't/lib';
use Dsem::Test;

# passwords of its own
delete $ENV{DSEM_ACL};

my $t = Dsem::Test->new;
my $set = $t->sentinel(password => 'redis-secret',
    sentinel_password => 'sentinel-secret');
my $up = $t->upstream;
my $master = $set->master;

my $conf = <<'EOF_CONF';
worker_processes 1;
dsem_redis %%SENTINELS%% mode=sentinel master=%%MASTER%%
           password=%%PASSWORD%% sentinel_password=%%SENTINEL_PASSWORD%%;
dsem_redis_connect_timeout %%TIMEOUT%%;
dsem_on_error reject;
add_header X-Status $dsem_status always;
location / {
    dsem api limit=2 queue=10 timeout=5s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

my %right = (PASSWORD => 'redis-secret',
    SENTINEL_PASSWORD => 'sentinel-secret', TIMEOUT => '10s');

sub address { return quotemeta $_[0]->address }

sub state { return Dsem::State->new($master) }

sub node {
    my ($name, %token) = @_;
    return $t->node($name, $conf, %right, %token);
}

sub subscribed {
    my ($node) = @_;
    return grep { /:\Q${\$node->name}\E:/ }
        @{ $master->cmd(qw(PUBSUB CHANNELS), '*') };
}

my $node = node('right');
eventually { state()->session_count == 1 } 'session at the master';
eventually { $node->grep_log(qr/connected to redis ${\address($master)} /)
    == 1 } 'address of the master logged';
is scalar($node->grep_log(qr/\[(?:warn|error)\]/)), 0, 'no error';
eventually { subscribed($node) } 'subscribed at the master';
my @held = map { $node->begin('/?hang=1') } 1, 2;
wait_for { $up->now == 2 } 15, 'two permits out';
is state()->held('api'), 2, 'permits at the master';
my $other = node('other');
my $waits = $other->begin('/?t=1');
wait_for { state()->waiting('api') == 1 } 15, 'one request queued';
$up->release(1);
is $waits->wait->status, 200, 'grant reaches another node';
$up->release_all;
is $_->wait->status, 200, 'permit back' for @held;
$_->quit for $node, $other;

# the first sentinel is down

my ($first, @others) = $set->sentinels;
$first->stop;
my $second = node('second');
is $second->get('/?t=1')->header('X-Status'), 'PASSED',
    'request served by another sentinel';
is scalar($second->grep_log(qr/\[(?:warn|error)\]/)), 0,
    'lost sentinel: no error';
$second->quit;

# it does not reply

$first->start;
$first->freeze;
my $third = node('third', TIMEOUT => '2s');
is $third->get('/?t=1')->header('X-Status'), 'PASSED',
    'request served beside silent sentinel';
is scalar($third->grep_log(qr/\[(?:warn|error)\]/)), 0,
    'silent sentinel: no error';
$third->quit;
$first->thaw;

# wrong in the configuration

sub attempts {
    my $n = 0;
    $n += $_ for map {
        $_->cmd('INFO', 'stats') =~ /^total_connections_received:(\d+)/m
    } $master, $set->sentinels;
    return $n;
}

my %cause = (
    master => qr/sentinel [\d.:]+: master "other" is unknown/,
    password => qr/sentinel [\d.:]+: WRONGPASS .*/,
    redis => qr/WRONGPASS .*/,
);
my @wrong = (node('master', MASTER => 'other'),
    node('password', SENTINEL_PASSWORD => 'letmein'),
    node('redis', PASSWORD => 'letmein'));
for (@wrong) {
    my $line = qr/\[error\].*\ dsem:\ redis\ \S+
        \ unavailable\ \($cause{ $_->name }\),\ requests/x;
    my $wrong = $_;
    eventually { $wrong->grep_log($line) } $wrong->name . ': cause logged';
}
my $before = attempts();
wait_for { attempts() >= $before + 6 * @wrong } 15, 'more attempts';
for (@wrong) {
    my $name = $_->name;
    is scalar($_->grep_log(qr/\[(?:warn|error)\].* dsem: /)), 1,
        "$name: one line";
    unlike $_->error_log, qr/secret|letmein/, "$name: no password logged";
}

$t->done;
