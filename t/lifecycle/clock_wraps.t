#!/usr/bin/perl

# The monotonic clock in ms passes a multiple of 2^32, as it does every 50 days:
# where nginx has 32 bits for it, it begins at 0 again. Requests are served and
# time out as before, no lease expires, and idle permits go back.

use lib 't/lib';
use Cpanel::JSON::XS qw(decode_json);
use Dsem::Clock;
use Dsem::Test;

my ($LIMIT, $TIMEOUT) = (4, 2);
# s until the clock passes it
my $BEFORE = 2;

my $t = Dsem::Test->new;
my $clock = Dsem::Clock->new($t, monotonic => 1);
$t->redis;
my $up = $t->upstream(service => 0.020);

my $wraps = now + $BEFORE;
$clock->step(2**32 / 1000 - Dsem::Clock::AHEAD - int $wraps);
# the step is of whole seconds
$wraps = int($wraps) + 2**32 / 1000 - int(2**32 / 1000);

my $node = do {
    local $ENV{LD_PRELOAD} = $clock->{library};
    local $ENV{DSEM_CLOCK} = $clock->{file};
    local $ENV{ASAN_OPTIONS} = "$ENV{ASAN_OPTIONS}:verify_asan_link_order=0"
        if $ENV{ASAN_OPTIONS};
    $t->node('a', <<'EOF_CONF');
worker_processes 2;
# what the load leaves idle need not be waited for
dsem_reuse 100ms;
server {
    listen 127.0.0.1:%%PORT%%;
    proxy_set_header X-Sem $dsem_name;
    location /steady {
        dsem steady limit=4 queue=100 timeout=20s;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /impatient {
        dsem impatient limit=1 queue=100 timeout=2s;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /kept {
        dsem kept limit=10 queue=1;
        dsem_reuse 1s;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /dsem/ {
        dsem_api;
    }
}
EOF_CONF
};

sub sessions { return join ' ', sort $t->state->sessions }

my $holder = $node->begin('/impatient?hang=1');
wait_for { $up->now('impatient') == 1 } 15, 'permit held';
wait_for { $t->state->session_count == 2 } 15, 'two sessions';
my ($before, $epochs) = (sessions(), $t->state->epochs);
my $load = $t->load_start(clients => 8, seconds => 3600,
    urls => [ $node->url('/steady') ]);
wait_for { $up->now('steady') == $LIMIT } 15, 'load';
# it began before the clock passes it, unless the machine was very busy
wait_for { now > $wraps - $TIMEOUT / 2 } 15, 'a second before';
my $impatient = $node->begin('/impatient');
is $node->get('/kept')->status, 200, 'request served before';
my $served = $up->served;

wait_for { now > $wraps } 15, 'clock at 2^32';
is $node->get('/kept')->status, 200, 'request served after';
is $impatient->wait->status, 503, 'request timed out';
cmp_ok $impatient->latency, '>', $TIMEOUT - 0.01, 'not too early';
cmp_ok $impatient->took, '<', $TIMEOUT + 2, 'not too late';
eventually { $up->served > $served + 20 } 'service continues';
eventually { $t->state->held('kept') == 0 } 'idle permits back';
is sessions(), $before, 'same sessions';
is_deeply $t->state->epochs, $epochs, 'same epochs';

my $all = decode_json($node->get('/dsem/semaphores')->body);
is $all->{redis}{state}, 'available', 'redis available';
cmp_ok $all->{fleet}{age}, '<', 60, 'figures of the fleet are new';

is_deeply [ keys %{ $load->stop->wait->{statuses} } ], [200],
    'every request served';
is $up->release_all, 1, 'long request still running';
is $holder->wait->status, 200, 'long request served';
is $up->peak('steady'), $LIMIT, 'limit reached, never exceeded';
is scalar($node->grep_log(qr/lease of|overage|\[warn\].*dsem:/)), 0,
    'no lease expired, no warning';

$t->done;
