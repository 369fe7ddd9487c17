#!/usr/bin/perl

# CLIENT PAUSE, as administrators and failovers use it: Redis accepts commands
# and executes them later. A pause below dsem_redis_timeout is only a wait.
# After a longer pause Redis is unavailable, and the commands of the pause have
# no effect when it ends.

use lib 't/lib';
use Dsem::Test;

my ($LIMIT, $TIMEOUT) = (4, 0.6);
my $TIMES = $ENV{DSEM_LONG} ? 50 : 2;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $up = $t->upstream(service => 0.020);

my $conf = <<'EOF_CONF';
worker_processes 1;
dsem_redis_timeout %%TIMEOUT%%;
dsem_status 503 error=500;
location /paused {
    dsem api limit=4 queue=100 timeout=10s;
    dsem_on_error reject;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

# a pause that is only a wait may take longer than it is told
my @patient = map { $t->node("patient$_", $conf, TIMEOUT => '3s') } 1, 2;
my @fleet = @patient;

sub away { return scalar map { $_->grep_log(qr/unavailable \(/) } @fleet }

# the number of nodes at which the last of these lines says so
sub unavailable {
    return scalar grep {
        my ($last) = reverse $_->grep_log(qr/unavailable \(|available again/);
        $last && $last =~ /unavailable \(/;
    } @fleet;
}

# the first of some requests that finds no permit
sub refused {
    my ($node) = @_;
    my $request;
    for (1 .. 50) {
        $request = $node->get('/paused');
        last if $request->status == 500;
    }
    return $request;
}

sub load {
    return $t->load_start(urls => [ map { $_->url('/paused') } @fleet ],
        clients => 16, seconds => 600, records => 1);
}

# shorter than the timeout: all commands, or write commands only

my $load = load();
for my $n (1 .. $TIMES) {
    my $served = $up->served;
    wait_for { $up->served > $served + 30 && $up->now == $LIMIT } 15, 'load';
    $redis->cmd(qw(CLIENT PAUSE 150), $n % 2 ? 'ALL' : 'WRITE');
}
my $result = $load->stop->wait;
is_deeply [ keys %{ $result->{statuses} } ], [200], 'short: all requests served'
    or diag explain $result->{statuses};
is away(), 0, 'short: redis stays available';
is $up->peak, $LIMIT, 'short: limit reached, never exceeded';

# longer; the test ends a pause of write commands, the other one ends by itself

$_->quit for @patient;
@fleet = map { $t->node("hasty$_", $conf, TIMEOUT => '600ms') } 1, 2;
# where the scripts take longer than the timeout, Redis is unavailable at first
wait_for { $_->grep_log(qr/connected to redis/) } 15, 'sessions open'
    for @fleet;
$_->clear_logs for @fleet;
$up->reset;
my @long = map { $_->begin('/paused?hang=1') } @fleet;
wait_for { $up->now == 2 } 15, 'long requests';
$load = load();
for my $n (1 .. $TIMES) {
    my $served = $up->served;
    wait_for { $up->served > $served + 30 && $up->now == $LIMIT } 15, 'load';
    my $all = $n % 2;
    my $paused = now;
    $redis->cmd(qw(CLIENT PAUSE), $all ? (2000, 'ALL') : (60_000, 'WRITE'));
    wait_for { unavailable() == 2 } 15, 'both nodes unavailable';
    # an own permit that has just come free would serve it
    my @asked = map { refused($_) } @fleet;
    is_deeply [ map { $_->status } @asked ], [ 500, 500 ], "$n: rejected";
    my ($least) = sort { $a <=> $b } map { $_->took } @asked;
    cmp_ok $least, '<', $TIMEOUT / 2, "$n: rejected at once";
    if ($all) {
        wait_for { unavailable() == 0 } 15, 'both nodes available again';
        cmp_ok now - $paused, '>', 1.9, "$n: not before pause ends";
    } else {
        is unavailable(), 2, "$n: not before pause ends";
        $redis->cmd(qw(CLIENT UNPAUSE));
        wait_for { unavailable() == 0 } 15, 'both nodes available again';
    }
    my $served_then = $up->served;
    eventually { $up->served > $served_then + 30 && $up->now == $LIMIT }
        "$n: service continues";
}
$result = $load->stop->wait;
is_deeply [ sort keys %{ $result->{statuses} } ], [ 200, 500 ],
    'long: all served or rejected'
    or diag explain $result->{statuses};
is $result->{mismatched}, 0, 'long: each response complete';
is $up->peak, $LIMIT, 'long: limit reached, never exceeded';
is $up->release_all, 2, 'long: running requests kept';
is $_->wait->status, 200, 'long: running requests served' for @long;
eventually { !$t->state->exists('api') } 'nothing held, none waiting';

$t->done;
