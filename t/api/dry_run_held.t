#!/usr/bin/perl

# A name stays marked as a dry run while its request holds a permit, for however
# long, and when that has ended: only requests that the limit may refuse end the
# mark, a minute after the last one of a dry run. The monotonic clock of the node
# is moved.

use lib 't/lib';
use Cpanel::JSON::XS qw(decode_json);
use Dsem::Clock;
use Dsem::Test;

my $MINUTE = 60;

my $t = Dsem::Test->new;
$t->redis;
my $up = $t->upstream;
my $clock = Dsem::Clock->new($t, monotonic => 1);

my $node = $clock->node('a', <<'EOF_CONF');
worker_processes 1;
dsem_lease 1h;
dsem_redis_timeout 1h;
location / {
    dsem nightly limit=1;
    dsem_dry_run on;
    proxy_pass http://%%UPSTREAM%%;
    proxy_read_timeout 1h;
}
location /enforced { dsem nightly limit=1; empty_gif; }
location /dsem/ { dsem_api; }
EOF_CONF

sub semaphore {
    return decode_json($node->get('/dsem/semaphores/nightly')->body)
        ->{semaphore};
}
sub marked { return semaphore()->{local}{dry_run} }

# A worker looks after its accounts once a second: its timers have ended by the
# time that it reads another request.
sub later {
    my ($seconds) = @_;
    $clock->step($seconds);
    $node->get('/dsem/health') for 1 .. 2;
}

my $held = $node->begin('/?hang=1');
wait_for { $up->now == 1 && $t->state->held('nightly') } 15,
    'a request of a dry run';
eventually { marked() } 'is marked';
later(2 * $MINUTE);
is semaphore()->{in_use}, 1, 'it is still running';
ok marked(), 'so the name is marked';
$up->release_all;
is $held->wait->status, 200, 'request ended';
later(2 * $MINUTE);
ok marked(), 'and nothing else has come';

# both kinds of requests

is $node->get('/enforced')->status, 200, 'one that may be refused';
ok !marked(), 'ends the mark';
my $dry = $node->begin('/?hang=1');
wait_for { $up->now == 1 && $t->state->held('nightly') } 15,
    'a dry run again';
eventually { marked() } 'is marked';
later(10);
is $node->get('/enforced')->status, 503, 'one that is refused, ten seconds later';
ok marked(), 'may be of another location';
later(2 * $MINUTE);
is $node->get('/enforced')->status, 503, 'and another one later';
ok !marked(), 'the dry run is over';
$up->release_all;
is $dry->wait->status, 200, 'its request ends';
ok !marked(), 'which is none that began';

$t->done;
