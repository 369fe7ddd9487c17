#!/usr/bin/perl

# Two requests of a pool wait, and are granted a server that fails before they
# learn of it. They ask again, for the other server: one is granted at once, one
# waits again. Each has waited, for all of this time.

use lib 't/lib';
use Cpanel::JSON::XS qw(decode_json);
use List::Util qw(sum);
use Dsem::Test;

my $t = Dsem::Test->new(lease => 600);
my $redis = $t->redis;
my @up = map { $t->upstream } 1, 2;
my ($bad, $good) = @up;
my $servers = join ' ', map { "server $_ fail_timeout=1h;" }
    map { $_->address } @up;
my $proxy = $t->proxy($redis->address);

my $conf = <<"EOF_CONF";
worker_processes 1;
# no reply gets to the node for a while
dsem_redis_timeout 1m;
dsem_lease 10m;
dsem_reuse off;
upstream gpus {
    $servers
    dsem gpus limit=3/server queue=100 timeout=60s;
}
server {
    listen 127.0.0.1:%%PORT%%;
    location / {
        proxy_pass http://gpus;
        add_header X-Dsem "\$dsem_status \$dsem_queue_position" always;
        add_header X-Wait \$dsem_wait_time always;
    }
    location /dsem/ { dsem_api; }
}
EOF_CONF
my $node = $t->node('one', $conf, REDIS => $proxy->address);
my $other = $t->node('two', $conf);

sub counts { return $t->state->counts('gpus') }

sub gpus {
    return decode_json($node->get('/dsem/semaphores/gpus')->body)->{semaphore};
}

# a request of the node at one server, all other permits at the other node

my @held = map { $other->begin('/?hang=1') } 1 .. 6;
eventually { $bad->now == 3 && $good->now == 3 } 'all permits are taken';
my $fails = $node->begin('/?hang=1&rst=1');
eventually { counts() eq '6 1' } 'one request waits';
$bad->release(1);
eventually { $bad->started == 4 } 'it is served';
my @wait = map { $node->begin('/?hang=1') } 1, 2;
# by a reply that comes after that of their queueing
eventually { (gpus()->{waiting} // 0) == 2 } 'two more wait';

# they are granted that server, which fails meanwhile

$proxy->freeze('s2c');
$bad->release(2);
eventually { counts() eq '6 0' } 'granted';
$bad->release_all;
is $fails->wait->status, 502, 'their server has failed';
$good->release(1);
# the other one goes back after the reply
eventually { counts() =~ /^[45] 0$/ } 'one permit is free';
$proxy->thaw('s2c');
eventually { counts() eq '3 1' } 'one is served, one waits again';
$good->release(1);
eventually { $good->started == 5 } 'it is served';
$_->release_all for @up;
like $_->wait->header('X-Dsem'), qr/^QUEUED [12]$/, 'it has waited' for @wait;

my $local = gpus()->{local};
is "@$local{qw(passed queued)}", '0 3', 'counted as queued';
is $local->{wait}{count}, 3, 'and as often as having waited';
is sprintf('%.3f', $local->{wait}{sum}),
    sprintf('%.3f', sum(map { $_->header('X-Wait') } $fails, @wait)),
    'for all of this time';

is $_->wait->status, 200, 'request ended' for @held;

$t->done;
