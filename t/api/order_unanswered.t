#!/usr/bin/perl

# A change that Redis does not answer: the client is told so and the log says
# who asked. If Redis continues, the change is made all the same. A reader or
# an author that leaves meanwhile changes nothing, and the worker goes on.

use lib 't/lib';
use Dsem::Http2;
use Dsem::Test;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $state = $t->state;
my $proxy = $t->proxy($redis->address);

my $node = $t->node('n1', <<'EOF_CONF', REDIS => $proxy->address);
%%GLOBALS%%
worker_shutdown_timeout 100ms;
events { }
http {
    %%HTTP%%
    dsem_redis %%REDIS%%;
    dsem_redis_timeout 2s;
    dsem_node %%NODE%%;
    server {
        listen 127.0.0.1:%%PORT%%;
        listen 127.0.0.1:%%PORT2%% http2;
        location / {
            dsem a limit=4;
            return 204;
        }
        location /dsem/ {
            dsem_api write=on;
        }
    }
}
EOF_CONF

my @JSON = ('content-type' => 'application/json');
my @workers = $node->workers;

sub unanswered { scalar $node->grep_log(qr/\[warn\].*no reply to a change/) }

sub begin {
    my ($body) = @_;
    return $node->begin('/dsem/semaphores/a', -method => 'PATCH', @JSON,
        -body => $body);
}

sub patch { return begin(@_)->wait->status }

is $node->get('/')->status, 204, 'node ready';
is patch('{"limit": 3}'), 200, 'order set';

# the session of the worker is unknown to Redis, until its next heartbeat

$proxy->freeze('c2s');
my $unknown = begin('{"limit": 2}');
is $node->get('/')->status, 204, 'the change is read';
$state->forget($state->sessions);
$proxy->thaw;
is $unknown->wait->status, 503, 'session unknown';
is unanswered(), 1, 'logged';
eventually { patch('{"limit": 3}') == 200 } 'session registered again';
is $state->ordered('a'), '3 0', 'order set again';

# the author and a reader leave

my $h2 = Dsem::Http2->new($node->raw(2));
$redis->freeze;
my $author = begin('{"limit": 1}');
my $reader = $h2->get('/dsem/semaphores/a');
$h2->ping->ping->rst($reader)->ping;
$author->close;
$redis->thaw;
eventually { $state->ordered('a') eq '1 0' } 'order set all the same';
eventually { patch('{"limit": 2}') == 200 } 'next order';

# Redis does not reply in time

my $before = unanswered();
$redis->freeze;
my @asked = (
    begin('{"paused": true}'),
    $node->begin('/dsem/sessions/n1:9:0123456789abcdef',
        -method => 'DELETE'),
);
is $_->wait->status, 503, 'no reply' for @asked;
is unanswered(), $before + 2, 'both logged';
is patch('{"limit": 2}'), 503, 'redis unavailable';
$redis->thaw;
eventually { patch('{"limit": null, "paused": false}') == 200 }
    'available again';
is $state->ordered('a'), undef, 'order removed';
is_deeply [ $node->workers ], \@workers, 'same worker';

# the worker exits first

$before = unanswered();
$redis->freeze;
my $last = begin('{"limit": 1}');
$h2->ping->ping;
$node->reload;
eventually { unanswered() == $before + 1 } 'logged at exit';
$redis->thaw;
eventually { $state->ordered('a') eq '1 0' } 'order set after the exit';
$last->close;

$t->done;
