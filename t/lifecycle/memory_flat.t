#!/usr/bin/perl

# Workers do not grow: memory and file descriptors stay flat over many queued
# requests, refusals, aborts and names used once. Redis keeps no keys of them.

use lib 't/lib';
use Dsem::Test;

my $REQUESTS = $ENV{DSEM_LONG} ? 200_000 : 10_000;
my $ROUNDS = $ENV{DSEM_LONG} ? 20 : 5;
# KB, in all rounds after the first, each as half of them grow at most: a leak
# grows in all, a peak that a stall made in one. A few rounds still warm up the
# heap; the smallest leak, 32 bytes a request, is 350. Sanitizers need more
my $FLAT = ($ENV{DSEM_LONG} ? 128 : 256) * ($ENV{DSEM_TIME_FACTOR} || 1);

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $up = $t->upstream(service => 0.001);

my $node = $t->node('n1', <<'EOF_CONF');
worker_connections 1024;
access_log off;
error_log error.log warn;
keepalive_requests 1000000;
dsem_reuse 100ms;
dsem_log_level info;
add_header X-Dsem $dsem_status always;
server {
    listen 127.0.0.1:%%PORT%%;
    location /one {
        dsem one limit=3 queue=20 timeout=30s;
        proxy_set_header X-Sem one;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /any {
        dsem "$arg_name" limit=1 queue=1;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /refused {
        dsem "$arg_name" limit=0;
        proxy_pass http://%%UPSTREAM%%;
    }
}
EOF_CONF

# each name once, some of them too long to be kept
sub request {
    my ($i) = @_;
    my $path = ('/one', '/one', '/any', '/one', '/refused')[ $i % 5 ];
    return $node->url($path . ($path eq '/one' ? '' : '?name=' . unique($i)));
}

sub unique {
    my ($i) = @_;
    return join '-', $$, $i, int rand 1e9, 'x' x ($i % 400);
}

my ($worker) = $node->workers;

sub kb { return $node->resident / 1024 }

sub files { return scalar(my @fds = glob "/proc/$worker/fd/*") }

# without a request, with both connections to Redis
wait_for { $t->state->subscribed == 1 && $t->state->session_count == 1 };
my $files = files();

my (%statuses, @kb);
for my $round (0 .. $ROUNDS) {
    my $n = $REQUESTS / $ROUNDS;
    my $result = $t->load(request => \&request, clients => 40,
        requests => $n, keepalive => 1);
    $statuses{$_} += $result->{statuses}{$_} for keys %{ $result->{statuses} };
    $result = $t->load(urls => [$node->url('/one?t=2')], clients => 30,
        requests => $n / 10, abort => sub { rand 0.02 });
    wait_for { $up->now == 0 && keys_left() == 0 && files() == $files };
    push @kb, kb();
}

# the way was the one that was meant

is(join(' ', sort keys %statuses), '200 503', 'all served or refused');
cmp_ok($statuses{$_}, '>', 0.2 * $REQUESTS, "many $_") for 200, 503;
is($up->peak('one'), 3, 'limit reached');
is(keys_left(), 0, 'no semaphore left in redis');
is(files(), $files, 'files flat');
my @grown = sort { $a <=> $b } map { $kb[$_] - $kb[$_ - 1] } 1 .. $ROUNDS;
cmp_ok($ROUNDS * $grown[$ROUNDS / 2], '<=', $FLAT, 'memory flat');
note("after each round: @kb KB; files: $files");

done_testing();

sub keys_left {
    return scalar grep { /:[sq]:/ } @{ $redis->cmd('KEYS', '*') };
}
