#!/usr/bin/perl

# "dsem_hold_warn": a request that holds a permit for longer is logged once,
# with its backend. The time begins with its first permit, also where it waits
# for another one, and goes on in the location to which it is redirected, whose
# time counts. Without the directive nothing is logged.

use lib 't/lib';
use Dsem::Clock;
use Dsem::Test;

my $t = Dsem::Test->new;
my $clock = Dsem::Clock->new($t, monotonic => 1);
$t->redis;
my $up = $t->upstream;

# the clock is moved by minutes, for which no timeout is short
my $node = $clock->node('a', <<'EOF_CONF');
worker_processes 1;
dsem_lease 1h;
dsem_redis_timeout 1h;
proxy_read_timeout 10h;
server {
    listen 127.0.0.1:%%PORT%%;
    dsem_hold_warn 10m;
    dsem plain limit=10 queue=5;
    location / {
        proxy_pass http://%%UPSTREAM%%;
    }
    location /off {
        dsem_hold_warn off;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /queued {
        dsem one limit=1 queue=5 timeout=10h;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /waits {
        dsem first limit=1 queue=5 timeout=10h;
        dsem one limit=1 queue=5 timeout=10h;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /idle {
        dsem first limit=1 queue=5;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /dsem/ { dsem_api; }
    location /enter {
        dsem kept limit=10 queue=5;
        proxy_intercept_errors on;
        error_page 500 = @next;
        proxy_pass http://%%UPSTREAM%%;
    }
    location @next {
        dsem_hold_warn 20m;
        dsem kept limit=10 queue=5;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /leave {
        dsem left limit=10 queue=5;
        try_files /none @elsewhere;
    }
    location @elsewhere {
        dsem elsewhere limit=10 queue=5;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /hold {
        dsem program limit=1;
        dsem_hold;
    }
    location /poke { dsem off; return 204; }
}
EOF_CONF

# two at the backend, of which one ends in time

my $hangs = begin('/', 'hangs');
my $ends = begin('/', 'ends');
my $off = begin('/off', 'off');
moved(500);
is warned(), 0, 'not yet';
ends('ends', $ends);
moved(500);
my @lines = $node->grep_log(qr/held for \d+ ms/);
is @lines, 1, 'the one that hangs is logged';
like $lines[0], qr/\[warn\] .*permits of "plain" held for 1\d{6} ms by a /,
    'with its time';
# Angie: request_line
like $lines[0], qr{request(?:_line)?: "GET /\?hang=1 .*upstream: "http://},
    'and its backend';
moved(2000);
is warned(), 1, 'once';
ends('hangs', $hangs);
ends('off', $off);

# one that gets its permit after a wait, and one that waits for another

$node->clear_logs;
my $holder = begin('/queued', 'holder');
my $queued = $node->begin('/queued?hang=1', 'X-Nonce' => 'queued');
wait_for { $t->state->waiting('one') == 1 } 15, 'one waits';
moved(700);
is warned('one'), 1, 'the holder, not the one that waits';
ends('holder', $holder);
wait_for { $up->now == 1 } 15, 'its turn';
eventually {
    $node->get('/idle')->status == 200 && $node->get('/dsem/semaphores/first')
        ->body =~ /"local":\{[^}]*"in_use":0,"idle":1/;
} 'an idle permit for the next one';
my $waits = $node->begin('/waits?hang=1', 'X-Nonce' => 'waits');
wait_for { $t->state->waiting('one') == 1 } 15, 'a holder waits';
moved(700);
is warned('one'), 2, 'the time of one that had waited begins with its permit';
is warned('first'), 1, 'a holder that waits for another permit';
ends('queued', $queued);
wait_for { $up->now == 1 } 15, 'the last one at the backend';
moved(10);
is warned('first'), 1, 'which is logged once';
ends('waits', $waits);

# redirects

my $left = begin('/leave', 'left');
moved(700);
is warned('left'), 0, 'a permit that was released';
is warned('elsewhere'), 1, 'one that the request has instead';
ends('left', $left);

my $kept = begin('/enter', 'kept', '&status=500');
moved(300);
my $started = $up->started;
$up->release_nonce('kept');
wait_for { $up->started == $started + 1 } 15, 'at the second backend';
moved(700);
is warned('kept'), 0, 'the time of the new location';
moved(300);
is warned('kept'), 1, 'from the first location on';
$up->release_nonce('kept');
is $kept->wait->status, 500, 'kept ends';

# a program

my $program = $node->hold('/hold');
moved(700);
is warned('program'), 1, 'a permit for programs';
$program->close;

$t->expect_log(qr/held for \d+ ms/);
$t->done;

sub begin {
    my ($uri, $nonce, $more) = @_;
    my $running = $up->now;
    my $request = $node->begin("$uri?hang=1" . ($more // ''),
        'X-Nonce' => $nonce);
    wait_for { $up->now == $running + 1 } 15, "$nonce at the backend";
    return $request;
}

sub ends {
    my ($nonce, $request) = @_;
    $up->release_nonce($nonce);
    is $request->wait->status, 200, "$nonce served";
}

# so many seconds later: the worker has run its timers
sub moved {
    my ($seconds) = @_;
    $clock->step($seconds);
    $node->get('/poke') for 1, 2;
    return;
}

sub warned {
    my ($name) = @_;
    $name //= '[^"]+';
    return scalar(my @lines =
        $node->grep_log(qr/permits of "$name" held for \d+ ms by a request/));
}
