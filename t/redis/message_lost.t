#!/usr/bin/perl

# Messages about grants are hints. Every second message is lost, or all of them
# with the heartbeats, or the subscription is cut repeatedly. No request waits
# beside a free permit for longer than the poll interval.

use lib 't/lib';
use Dsem::Test;

my $SECONDS = $ENV{DSEM_LONG} ? 20 : 1;
my $GRANT = '^\*3\r\n\$7\r\nmessage\r\n(?s:.*)\r\n[0-9a-f]{16} grant ';

my $t = Dsem::Test->new;

my $conf = <<'EOF_CONF';
worker_processes 2;
location /waiting {
    dsem api limit=1 queue=100 timeout=10s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

# with a Redis of its own, so that the faults last at the same time
sub lane {
    my ($name) = @_;
    my $redis = $t->redis;
    my $lane = { redis => $redis, up => $t->upstream(service => 0.020),
        proxy => $t->proxy($redis->address) };
    $lane->{fleet} = [ map { $t->node("$name$_", $conf,
        REDIS => $lane->{proxy}->address) } 1, 2 ];
    return $lane;
}

# The longest time with a request waiting beside a free permit: as the
# clients and the upstream saw it, with no word from Redis or nginx. There is
# only one permit, for of two each may be free in its turn. The machine's own
# pauses do not count.
sub idle_while_waiting {
    my ($load, $up) = @_;
    my %served = map { $_->{nonce} => $_ } $up->log;
    my @change;
    for my $asked (@{ $load->{records} }) {
        my $served = $served{ $asked->{nonce} } or next;
        push @change, [ $asked->{start}, 1, 0 ],
            [ $served->{start}, -1, 1 ], [ $served->{end}, 0, -1 ];
    }
    my ($waiting, $running, $since, $longest) = (0, 0, undef, 0);
    for (sort { $a->[0] <=> $b->[0] } @change) {
        my ($time, $more_waiting, $more_running) = @$_;
        my $idle = defined $since ? took($since, $time) : 0;
        $longest = $idle if $idle > $longest;
        $waiting += $more_waiting;
        $running += $more_running;
        $since = $waiting && !$running ? $since // $time : undef;
    }
    return $longest;
}

# $enough: it lasts until then
sub load {
    my ($lane, $name, $enough) = @_;
    $lane->{up}->reset;
    $lane->{load} = $t->load_start(clients => 5, seconds => 3600, records => 1,
        urls => [ map { $_->url('/waiting') } @{ $lane->{fleet} } ]);
    @$lane{qw(name end enough)} = ($name, now + $SECONDS, $enough);
}

# $while: ten times a second
sub loaded {
    my ($while, @lanes) = @_;
    my $next = now;
    wait_for {
        if (now >= $next) {
            $while->();
            $next = now + 0.1;
        }
        # the one that has had enough does not go on
        for (grep { !$_->{ended} } @lanes) {
            next if now < $_->{end} || $_->{enough} && !$_->{enough}->();
            $_->{ended} = $_->{load}->stop;
        }
        !grep { !$_->{ended} } @lanes;
    } $SECONDS + 30, 'the load';
    delete $_->{ended} for @lanes;
    return map { waits_bounded($_) } @lanes;
}

sub waits_bounded {
    my ($lane) = @_;
    my ($name, $up) = @$lane{qw(name up)};
    my $result = $lane->{load}->wait;
    is_deeply [ keys %{ $result->{statuses} } ], [200], "$name: all served"
        or diag explain $result->{statuses};
    is $up->peak, 1, "$name: limit reached";
    my $longest = idle_while_waiting($result, $up);
    cmp_ok $longest, '<', 1.5, "$name: waits bounded";
    note sprintf '%s: %.3f s, %d served', $name, $longest, $up->served;
    return $longest;
}

my ($one, $two) = map { lane($_) } qw(one two);

$two->{proxy}->swallow(match => $GRANT, every => 2);
load($two, 'half lost', sub { $two->{proxy}->swallowed > 2 });

# Without a message a request is served by the poll, a second after it asked.
my ($up, $proxy) = @$one{qw(up proxy)};
$proxy->swallow(match => $GRANT);
my $holder = $one->{fleet}[0]->begin('/waiting?hang=1');
wait_for { $up->now == 1 } 15, 'permit out';
my $waiting = $one->{fleet}[1]->begin('/waiting');
wait_for { $t->state->waiting('api') == 1 } 15, 'one request queued';
$up->release(1);
is $_->wait->status, 200, 'one by one: served' for $holder, $waiting;
cmp_ok $waiting->latency, '>', 0.5, 'served by poll only';

load($one, 'all lost');
loaded(sub { }, $one, $two);
cmp_ok $two->{proxy}->swallowed, '>', 2, 'messages really lost';
$_->{proxy}->swallow for $one, $two;

# a subscription without heartbeats is opened anew
if ($ENV{DSEM_LONG}) {
    $proxy->swallow(every => 1);
    load($one, 'beats lost');
    loaded(sub { }, $one);
    $proxy->swallow;
}

load($one, 'none lost');
load($two, 'cut');
my ($none) = loaded(sub { $two->{redis}->cmd(qw(CLIENT KILL TYPE pubsub)) },
    $one, $two);
# a process that was stopped for a moment is no message that was lost
for (1, 2) {
    last if $none < 0.5;
    load($one, 'none lost, once more');
    ($none) = loaded(sub { }, $one);
}
cmp_ok $none, '<', 0.5, 'served by messages';

$t->done;
