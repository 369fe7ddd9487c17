#!/usr/bin/perl

# A connect or a command has had no reply in time: Redis is unavailable.
# Waiting and asking requests are refused at once. No request waits for longer
# than the timeout. The log has one line per worker each way, whatever the
# traffic.

use List::Util qw(max sum);
use lib 't/lib';
use Dsem::Test;

# a bit longer than the time from the beginning to a check that is due each
# second, so that the next check is far away when they are over
my ($CONNECT, $TIMEOUT) = (1.1, 1.1);
my ($NODES, $WORKERS) = (2, 4);
# how much later than the timeout requests were refused
my @later;

my $t = Dsem::Test->new;

my $conf = <<'EOF_CONF';
worker_processes 2;
dsem_redis_connect_timeout 1100ms;
dsem_redis_timeout 1100ms;
dsem_status 503 error=500;
location /rejected {
    dsem api limit=3 queue=100 timeout=20s;
    dsem_on_error reject;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

# a fleet with a Redis of its own: it is lost in all ways at the same time
sub lane {
    my ($name, $timeout, $goes, $comes) = @_;
    my $redis = $t->redis;
    my $lane = { name => $name, timeout => $timeout, goes => $goes,
        comes => $comes, redis => $redis, state => Dsem::State->new($redis),
        up => $t->upstream(service => 0.020),
        proxy => $t->proxy($redis->address) };
    my $host = $name =~ s/ /-/gr;
    $lane->{fleet} = [ map { $t->node("$host$_", $conf,
        REDIS => $lane->{proxy}->address) } 1 .. $NODES ];
    return $lane;
}

sub lines {
    my ($lane, $re) = @_;
    return map { $_->grep_log($re) } @{ $lane->{fleet} };
}

sub full {
    my ($lane) = @_;
    my ($up, $state) = @$lane{qw(up state)};
    my @fleet = @{ $lane->{fleet} };
    wait_for { $state->session_count >= $WORKERS } 15, 'all workers connected';
    $lane->{running} = [ map { $fleet[0]->begin('/rejected?hang=1') } 1 .. 3 ];
    wait_for { $up->now == 3 } 15, 'all permits out';
    $lane->{waiting} = [ map { $_->begin('/rejected') } @fleet ];
    wait_for { $state->waiting('api') == @fleet } 15, 'requests queued';
    $_->clear_logs for @fleet;
}

sub goes {
    my ($lane) = @_;
    $lane->{goes}->($lane);
    $lane->{gone} = now;
    # of all workers
    $lane->{asked} = [ map { my $n = $_;
        map { $_->begin("/rejected?n=$n") } @{ $lane->{fleet} } } 1 .. 6 ];
}

sub refused {
    my ($lane) = @_;
    my ($name, $timeout, $gone) = @$lane{qw(name timeout gone)};
    my @asked = @{ $lane->{asked} };
    # a heartbeat may go by until a connection is missed
    for (@{ $lane->{waiting} }) {
        is $_->status, 500, "$name: waiting requests refused";
        cmp_ok took($gone, $_->{ended}), '<', 1 + $timeout + 1.5,
            "$name: refused at once";
    }
    for (@asked) {
        is $_->status, 500, "$name: asking requests refused";
        cmp_ok $_->took, '<', $timeout + 1, "$name: refused in time";
    }
    push @later, map { max 0, took($gone + $timeout, $gone + $_->latency) }
        @asked;
    my $most = max map { $_->took } @asked;
    note sprintf "$name: %.2f s at most", $most;
    eventually { lines($lane, qr/unavailable \(/) == $WORKERS }
        "$name: all workers unavailable";
    my $load = $t->load(clients => 20, requests => 100,
        urls => [ map { $_->url('/rejected') } @{ $lane->{fleet} } ]);
    is_deeply [ keys %{ $load->{statuses} } ], [500],
        "$name: new requests refused";
    is $lane->{up}->now, 3, "$name: running requests kept";
}

sub served {
    my ($lane) = @_;
    my ($name, $up) = @$lane{qw(name up)};
    eventually { lines($lane, qr/available again/) == $WORKERS }
        "$name: all available again";
    $up->release_all;
    is $_->wait->status, 200, "$name: running requests served"
        for @{ $lane->{running} };
    is $lane->{fleet}[0]->get('/rejected')->status, 200,
        "$name: request served again";
    is scalar(lines($lane, qr/\[error\].*dsem: redis/)), $WORKERS,
        "$name: one error per worker";
    is scalar(lines($lane, qr/\[notice\].*dsem.*available again/)), $WORKERS,
        "$name: one notice per worker";
    is scalar(lines($lane, qr/\[(?:warn|error)\].*dsem: /)), $WORKERS,
        "$name: no other error";
}

my @lanes = (
    lane('connect timeout', $CONNECT, sub {
        my ($proxy, $redis) = @{ $_[0] }{qw(proxy redis)};
        $proxy->freeze;
        $redis->client_kill;
        $proxy->cut;
    }, sub { $_[0]{proxy}->thaw }),
    lane('refused', $CONNECT, sub { $_->refuse, $_->cut for $_[0]{proxy} },
        sub { $_[0]{proxy}->refuse(0) }),
    lane('command timeout', $TIMEOUT, sub { $_[0]{redis}->freeze },
        sub { $_[0]{redis}->thaw }),
    lane('silence', $TIMEOUT, sub { $_[0]{proxy}->freeze('s2c') },
        sub { $_[0]{proxy}->thaw }),
);
full($_) for @lanes;
goes($_) for @lanes;
my @refused = map { (@{ $_->{waiting} }, @{ $_->{asked} }) } @lanes;
# all of them at each look: the end of one is when it is seen
wait_for { @refused == grep { $_->done } @refused } 30, 'all answers';
refused($_) for @lanes;
$_->{comes}->($_) for @lanes;
served($_) for @lanes;

# by the next check it would be most of a second
my $mean = sum(@later) / @later;
note sprintf '%.3f s later on average', $mean;
cmp_ok $mean, '<', 0.4, 'refused at once on average';

$t->done;
