#!/usr/bin/perl

# A permit of a pool that comes free stays with its worker, and serves the next
# request, at its server. As soon as a request of another node waits all idle
# permits go back, and so do those of a server that has failed or is drained, of a
# worker that exits or was killed, and of a Redis that has lost its state. Without
# Redis they serve at their servers, too.

use lib 't/lib';
use Cpanel::JSON::XS qw(decode_json);
use List::Util qw(sum);
use Dsem::Test;

my $t = Dsem::Test->new(lease => 60);
my $redis = $t->redis;
my @up = map { $t->upstream } 1 .. 4;
my $servers = join ' ', map {
    'server ' . $_->address . ' fail_timeout=3600;'
} @up;
my $proxy = $t->proxy($redis->address);

my $conf = <<"EOF_CONF";
worker_processes 1;
dsem_redis_connect_timeout 500ms;
dsem_reuse 60s;
dsem_lease 60s;
upstream gpus {
    zone gpus 64k;
    $servers
    dsem gpus limit=1/server queue=100 timeout=60s;
}
server {
    listen 127.0.0.1:%%PORT%%;
    proxy_set_header X-Node %%NODE%%;
    add_header X-Server "\$dsem_server" always;
    location / {
        proxy_pass http://gpus;
    }
    location /dsem/ {
        dsem_api write=on;
    }
}
EOF_CONF
my $keeps = $t->node('keeps', $conf, REDIS => $proxy->address);
my $asks = $t->node('asks', $conf =~ s/dsem_reuse 60s/dsem_reuse off/r);
wait_for { $t->state->subscribed == 2 } 15, 'sessions open';

# the servers that Redis counts a permit of
sub held {
    my $head = $redis->cmd('HGET', $t->state->semaphore_key('gpus'), '.') // '';
    my ($at) = $head =~ m{ /.*;([^;]*)$};
    return join ' ', sort map { s/=1$//r } split / /, $at // '';
}

sub served {
    my ($node, $path) = @_;
    my $request = $node->get($path // '/?t=1');
    return $request->status == 200 ? $request->header('X-Server')
        : 'status ' . $request->status;
}

sub running { return join ' ', map { $_->now } @up }

# permits that lie idle in the worker of a node
sub idle {
    my ($node) = @_;
    my $all = decode_json($node->get('/dsem/semaphores')->body);
    my ($pool) = grep { $_->{name} eq 'gpus' } @{ $all->{semaphores} };
    return $pool->{local}{idle} // 0;
}

# Half of the permits of the fleet stay with one of two workers: their servers.
sub kept {
    my ($name) = @_;
    eventually {
        my @two = map { $keeps->begin('/?hang=1') } 1, 2;
        wait_for { 2 == sum map { $_->now } @up } 15, 'two at work';
        $_->release_all for @up;
        $_->wait for @two;
        my @all = split / /, held();
        @all >= 2 && idle($keeps) == @all;
    } "$name: two permits stay", 30;
    return split / /, held();
}

# how many of ten requests are served elsewhere
sub elsewhere {
    my @servers = @_;
    my $pattern = join '|', map { quotemeta } @servers;
    return scalar grep { served($keeps) !~ /^(?:$pattern)$/ } 1 .. 10;
}

sub all_used {
    my ($name) = @_;
    my @held = map { $asks->begin('/?hang=1') } @up;
    eventually { running() eq '1 1 1 1' } $name;
    return @held;
}

# of one server
sub order {
    my ($server, $limit) = @_;
    my $answer = $asks->get("/dsem/semaphores/gpus/servers/$server",
        -method => 'PATCH', -body => qq({"limit":$limit}),
        'Content-Type' => 'application/json');
    $answer->close;
    is $answer->status, 200, "ordered: $limit";
}

sub released {
    $_->release_all for @up;
    is scalar(grep { $_->wait->status != 200 } @_), 0, 'requests served';
}

my @idle = kept('first');
is elsewhere(@idle), 0, 'the next requests are served at their servers';
isnt held(), '', 'and are idle again';

my @held = all_used('idle permits serve another node');
my $waits = $keeps->begin('/?t=1');
wait_for { $t->state->waiting('gpus') == 1 } 15, 'a request waits';
released(@held, $waits);
is $_->peak, 1, 'limit of a server reached, not exceeded' for @up;

# a worker is killed

@idle = kept('then');
$keeps->kill_worker;
released(all_used('permits of a killed worker are free'));
wait_for { $t->state->subscribed == 2 } 15, 'its successor';

# a server is drained

@idle = kept('now');
order($idle[0], 0);
eventually { held() !~ /\Q$idle[0]\E/ } 'drained: its idle permit goes back';
is elsewhere(grep { $_ ne $idle[0] } map { $_->address } @up), 0,
    'no request is for it';
order($idle[0], 'null');
released(all_used('and all are used when it is back'));

# a worker exits, and Redis loses its state

@idle = kept('once more');
$keeps->reload;
released(all_used('permits of an exiting worker are free'));
wait_for { $t->state->subscribed == 2 } 15, 'its successor is alone';

@idle = kept('at last');
# each knows how many there are: the recovery waits for these only
$redis->all_beat(2);
$redis->empty;
released(all_used('those that the state had lost are free'));
is $_->peak, 1, 'limit of a server not exceeded' for @up;

# Redis is out of reach

@idle = kept('later');
$proxy->refuse;
$proxy->cut;
wait_for { $keeps->grep_log(qr/unavailable \(/) } 15, 'Redis unavailable';
is elsewhere(@idle), 0, 'without Redis they serve at their servers';
$proxy->refuse(0);
wait_for { $keeps->grep_log(qr/available again/) } 15, 'available again';
wait_for { $t->state->subscribed == 2 } 15, 'its messages come';

# a server fails at one node

@idle = kept('last');
my $server = served($keeps);
my ($fails) = grep { $_->address eq $server } @up;
$fails->refuse($keeps->name);
eventually { served($keeps) eq 'status 502' } 'a try fails';
eventually { held() !~ /\Q$server\E/ } 'its permit goes back';
is elsewhere(map { $_->address } grep { $_ != $fails } @up), 0,
    'other servers are used';
released(all_used('the other node uses all'));

is $_->peak, 1, 'limit of a server not exceeded' for @up;

$t->done;
