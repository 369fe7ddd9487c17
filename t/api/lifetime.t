#!/usr/bin/perl

# Requests of the API end in each case: a client that takes its answer slowly
# gets all of it, an exiting worker answers those that wait for Redis, a change
# that was made is logged, and a client that has left keeps no worker.

use lib 't/lib';
use Dsem::Http2;
use Dsem::Test;

my $t = Dsem::Test->new;
my $redis = $t->redis;

my $conf = <<'EOF_CONF';
worker_processes 1;
dsem_redis_timeout 20s;
server {
    listen 127.0.0.1:%%PORT%%;
    location /dsem/ {
        dsem_api write=on;
    }
}
server {
    listen 127.0.0.1:%%PORT2%% http2;
    location /dsem/ {
        dsem_api write=on;
    }
}
EOF_CONF

my $node = $t->node('n1', $conf);
my @type = ('Content-Type' => 'application/json');

sub available { return $node->get('/dsem/health')->status == 200 }

# the body of an error goes when the client opens its window

eventually { available() } 'available';
my $h2 = Dsem::Http2->new($node->raw(2), window => 0);
my $body = '{"limit":"x"}';
my ($stream, $frame) = $h2->head('PATCH', 0, '/dsem/semaphores/some',
    'content-type' => 'application/json', 'content-length' => length $body);
$h2->raw->send($frame . Dsem::Http2::frame('DATA', 1, $stream, $body));
$h2->ping;
$h2->window($stream, 1000);
is $h2->status($stream), 400, 'error to a closed window';
like $h2->body($stream), qr/must be a whole number/, 'its sentence';
$h2->close;

# a client that has left

my ($worker) = $node->workers;
$redis->freeze;
my $left = $node->begin('/dsem/semaphores');
available();
$left->abort;
my $began = now;
$node->reload;
eventually { !kill 0, $worker } 'worker exits';
cmp_ok took($began), '<', 5, 'at once';
$redis->thaw;

# clients that wait, for all that asks Redis

eventually { available() } 'available again';
($worker) = $node->workers;
$redis->freeze;
my %waits = (
    figures => $node->begin('/dsem/semaphores'),
    order => $node->begin('/dsem/semaphores/some', -method => 'PATCH', @type,
        -body => '{"limit":7}'),
    removal => $node->begin('/dsem/sessions/n9:0:00', -method => 'DELETE'),
);
available();
$node->reload;
wait_for { 2 == $node->grep_log(qr/gracefully shutting down/) } 15, 'exit';
$redis->thaw;
is $waits{$_}->wait->status, { removal => 404 }->{$_} // 200,
    "answered at exit: $_" for sort keys %waits;
$_->close for values %waits;
eventually { !kill 0, $worker } 'worker exits';
eventually { $node->grep_log(qr/order for semaphore "some": limit none -> 7/) }
    'logged';

# a worker that has no session yet: nothing was sent

$redis->freeze;
my $new = $t->node('n2', $conf =~ s/20s/300ms/r);
my $early = $new->get('/dsem/semaphores/some', -method => 'PATCH', @type,
    -body => '{"limit":8}');
is $early->status, 503, 'no session yet';
like $early->body, qr/nothing has been changed/, 'which the answer tells';
$redis->thaw;
$early->close;
ok !$new->grep_log(qr/may have been made/), 'and the log does not doubt';

$t->done;
