#!/usr/bin/perl

# The API shows how long a request of the node has held a permit, in JSON and in
# the metrics: the oldest one of all workers, those that drain included. An idle
# permit is held by no request, and a killed worker holds none.

use lib 't/lib';
use Cpanel::JSON::XS qw(decode_json);

use Dsem::Clock;
use Dsem::Test;

my $t = Dsem::Test->new;
my $clock = Dsem::Clock->new($t, monotonic => 1);
$t->redis;
my $up = $t->upstream;

# the clock is moved by minutes, for which no timeout is short
my $node = $clock->node('a', <<'EOF_CONF');
worker_processes 2;
dsem_lease 1h;
dsem_reuse 60s;
dsem_redis_timeout 1h;
proxy_read_timeout 10h;
keepalive_timeout 10h;
server {
    listen 127.0.0.1:%%PORT%% reuseport;
    location / {
        dsem reports limit=10 queue=5;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /other {
        dsem other limit=10 queue=5;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /dsem/ { dsem_api; }
    location /pid { return 200 "pid $pid."; }
}
EOF_CONF

# whichever worker has it

my (%worker, @same);
until (keys %worker == 2 && @same) {
    my $raw = $node->raw;
    my ($pid) = $raw->send("GET /pid HTTP/1.1\r\nHost: x\r\n\r\n")
        ->read_until(qr/pid \d+\./) =~ /pid (\d+)\./;
    push @{ $worker{$pid} }, $raw;
    @same = @{ $worker{$pid} } if @{ $worker{$pid} } == 3;
}

# each five minutes older than the next
sub begin {
    my (@raws) = @_;
    for my $n (0 .. $#raws) {
        $raws[$n]->send("GET /other?hang=1 HTTP/1.1\r\nHost: x\r\n"
            . "X-Nonce: n$n\r\n\r\n");
        wait_for { $up->now == $n + 1 } 15, 'one more';
        $clock->step(300);
    }
}

sub served {
    $_->read_until(qr{^HTTP/1.1 200 .*?\r\n\r\n}s) for @_;
}

my @one = map { $worker{$_}[0] } sort keys %worker;
for my $raws ([ @one ], [ reverse @one ]) {
    begin(@$raws);
    eventually { oldest('other') >= 600 } 'the older one of two workers';
    $up->release_all;
    served(@one);
    eventually { oldest('other') == 0 } 'both have ended';
}

begin(@same);
eventually { oldest('other') >= 900 } 'of one worker the first of three';
$up->release_nonce('n0');
served($same[0]);
eventually { my $time = oldest('other'); $time >= 600 && $time < 900 }
    'of one worker the second of three';
$up->release_all;
served(@same[1, 2]);

my %held = (first => hold('first'));
is oldest('other'), 0, 'of another semaphore';
$clock->step(300);
$held{$_} = hold($_) for qw(second third);
eventually { oldest() >= 300 && oldest() < 600 } 'the first one';
my ($metric) = $node->get('/dsem/metrics')->body
    =~ /^dsem_oldest_hold_seconds\{semaphore="reports"\} ([\d.]+)$/m;
ok $metric >= 300 && $metric < 600, 'in the metrics';

$clock->step(1000);
released('third');
eventually { oldest() >= 1300 } 'a younger one ends';
released('first');
eventually { oldest() >= 1000 && oldest() < 1300 } 'now the second is oldest';

# a worker that drains holds it still

$node->reload;
eventually { $node->draining } 'a worker drains';
$clock->step(1000);
eventually { oldest() >= 2000 } 'and its request counts';
released('second');
eventually { oldest() == 0 } 'none is held';

$held{idle} = hold('idle');
released('idle');
eventually { local_figures()->{idle} > 0 } 'a permit is idle';
is oldest(), 0, 'which no request holds';

$held{killed} = hold('killed');
$clock->step(300);
eventually { oldest() >= 300 } 'a new one';
$node->kill_worker($_) for $node->workers;
eventually { oldest() == 0 } 'its worker was killed';
$held{killed}->wait;

$t->expect_log(qr/exited on signal 9/);
$t->done;

sub hold {
    my ($nonce) = @_;
    my $running = $up->now;
    my $request = $node->begin('/?hang=1', 'X-Nonce' => $nonce);
    wait_for { $up->now == $running + 1 } 15, "$nonce at the backend";
    return $request;
}

sub released {
    my ($nonce) = @_;
    $up->release_nonce($nonce);
    is $held{$nonce}->wait->status, 200, "$nonce served";
}

sub local_figures {
    my ($name) = @_;
    my $answer = $node->get('/dsem/semaphores/' . ($name // 'reports'));
    return decode_json($answer->body)->{semaphore}{local};
}

sub oldest { return local_figures(@_)->{oldest_hold} }
