#!/usr/bin/perl

# Figures of the fleet that are wrong on their way. Text that names no call of
# this worker ends the connection, as any other wrong reply; text of another
# form only leaves the last figures as they are, with one line in the log.
# Requests are served all the time. Figures that are late are shown next time.

use JSON::PP qw(decode_json);
use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $up = $t->upstream;
my $proxy = $t->proxy($redis->address);

my $node = $t->node('a', <<'EOF_CONF', REDIS => $proxy->address);
worker_processes 1;
dsem_redis_timeout 2s;
location /reports {
    dsem reports limit=3;
    proxy_pass http://%%UPSTREAM%%;
}
location /dsem/ {
    dsem_api;
}
EOF_CONF

my $holder = $node->begin('/reports?hang=1');
wait_for { $up->now == 1 } 15, 'permit out';

sub fleet { decode_json($node->get('/dsem/semaphores')->body)->{fleet} }
sub epoch { join ' ', values %{ $t->state->epochs } }

eventually { defined fleet()->{age} } 'figures read';
my $epoch = epoch();

# lines of another form: the connection stays

$proxy->rewrite("\naccount a:0:", "\naccount \x1b\xff0:");
eventually { fleet()->{age} > 1 } 'last figures shown';
is epoch(), $epoch, 'connection kept';
my @lines = $node->grep_log(qr/figures of the fleet not readable/);
is scalar(@lines), 1, 'logged once';
like $lines[0], qr/\[warn\].*\Q@{[ $proxy->address ]}\E/, 'redis named';

is $node->get('/reports')->status, 200, 'request served meanwhile';

$proxy->rewrite(undef, undef);
eventually { fleet()->{age} < 0.9 } 'figures read again';

# the reply to another call: the connection ends, and comes back

my ($session) = $t->state->sessions;
$proxy->rewrite("\r\n$session $epoch ", "\r\n$session 0 ");
eventually { fleet(); epoch() > $epoch } 'connection ended';
eventually { $node->grep_log(qr/unexpected reply/) } 'cause logged';
$proxy->rewrite(undef, undef);
eventually { $node->get('/reports')->status == 200 } 'request served again';
eventually { fleet()->{age} < 0.9 } 'figures read by the new connection';

# a distant redis: each reply comes in time, but the figures need several, and
# longer than their first reader waits

$proxy->delay(0.55);
my $asked = now;
my $latency = 0;
eventually {
    my $begun = now;
    my $age = fleet()->{age};
    $latency = took($begun) if took($begun) > $latency;
    $begun - $age > $asked;
} 'figures of a distant redis';
cmp_ok $latency, '<', 3, 'no reader waits for long';
$proxy->delay(0);

$up->release_all;
is $holder->wait->status, 200, 'running request served';

$t->done;
