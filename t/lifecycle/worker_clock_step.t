#!/usr/bin/perl

# The clock of one nginx host is set by a minute or an hour, either way, under
# load. Leases and timeouts run on monotonic clocks: no session ends on either
# node, and no request waits for a longer or shorter time.

use lib 't/lib';
use Dsem::Clock;
use Dsem::Test;

my ($LIMIT, $LEASE, $TIMEOUT) = (4, 2, 1.5);
my @STEPS = (60, -60, 3600, -3600);

my $t = Dsem::Test->new(lease => $LEASE);
my $clock = Dsem::Clock->new($t);
my $redis = $t->redis;
my $up = $t->upstream(service => 0.020);

my $conf = <<'EOF_CONF';
worker_processes 1;
dsem_lease 2s;
proxy_set_header X-Sem $dsem_name;
location /steady {
    dsem steady limit=4 queue=100 timeout=20s;
    proxy_pass http://%%UPSTREAM%%;
}
location /impatient {
    dsem impatient limit=1 queue=100 timeout=1500ms;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

my $stepped = do {
    # the same library that sets the clock of a Redis host
    local $ENV{LD_PRELOAD} = $clock->{library};
    local $ENV{DSEM_CLOCK} = $clock->{file};
    local $ENV{ASAN_OPTIONS} = "$ENV{ASAN_OPTIONS}:verify_asan_link_order=0"
        if $ENV{ASAN_OPTIONS};
    $t->node('stepped', $conf);
};
my $other = $t->node('other', $conf);

sub sessions { return join ' ', sort $t->state->sessions }
sub held { return $t->state->held('steady') }

my @long = map { $_->begin('/steady?hang=1') } $stepped, $other;
my $holder = $other->begin('/impatient?hang=1');
wait_for { $up->now == 3 } 15, 'long requests';
my ($before, $epochs) = (sessions(), $t->state->epochs);
my $load = $t->load_start(clients => 12, seconds => 3600,
    urls => [ map { $_->url('/steady') } $stepped, $other ]);
wait_for { $up->now('steady') == $LIMIT } 15, 'load';

for my $step (@STEPS) {
    my @waiting = map { $_->begin('/impatient') } $stepped, $other;
    wait_for { $t->state->waiting('impatient') == 2 } 5, 'two requests queued';
    my $served = $up->served;
    my $shown = $stepped->logged($stepped->get('/steady'))->{msec};
    $clock->step($step);
    my $shows = $stepped->logged($stepped->get('/steady'))->{msec};
    cmp_ok abs($shows - $shown - $step), '<', 10, "$step s: clock set";
    my %end = %{ $t->state->lease_ends };
    # of each worker since the step, two at least
    for (1, 2) {
        wait_for {
            my $new = $t->state->lease_ends;
            !grep { $new->{$_} && $new->{$_} == $end{$_} } keys %end
                and %end = %$new;
        } 15, 'a heartbeat of each worker';
    }
    for (@waiting) {
        is $_->wait->status, 503, "$step s: request timed out";
        cmp_ok $_->latency, '>', $TIMEOUT - 0.01, "$step s: not too early";
        cmp_ok $_->took, '<', $TIMEOUT + 2, "$step s: not too late";
    }
    is sessions(), $before, "$step s: all sessions live";
    cmp_ok held(), '>=', 2, "$step s: no permit lost";
    eventually { $up->served > $served + 20 } "$step s: service continues";
}

is_deeply $t->state->epochs, $epochs, 'same epochs';
is_deeply [ keys %{ $load->stop->wait->{statuses} } ], [200],
    'every request served';
is $up->release_all, 3, 'long requests still running';
is $_->wait->status, 200, 'long requests served' for @long, $holder;
is $up->peak('steady'), $LIMIT, 'limit reached, never exceeded';
is scalar(map { $_->grep_log(qr/lease of|overage|\[warn\].*dsem:/) }
    $stepped, $other), 0, 'no lease expired, no warning';

$t->done;
