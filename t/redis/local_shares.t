#!/usr/bin/perl

# Redis becomes unavailable under load, with all permits in one worker. During
# its lease only that worker serves, because Redis counts the permits as its
# own; after the fence no more than its share. Then each worker has its share.
# The upstream never sees more than the limit. When Redis is available again,
# any worker may use the whole limit.

use lib 't/lib';
use Dsem::Test;

my ($LIMIT, $SHARE, $LEASE) = (6, 2, 2);

# ms; far below a quarter of the lease, so that those that begin right before the
# fence end before the others begin, also where a heartbeat or all is late
my @LONG = (80, 100, 60);
my @SHORT = (150, 200);

my $t = Dsem::Test->new(lease => $LEASE);

my $conf = <<'EOF_CONF';
worker_processes 1;
dsem_redis_connect_timeout 600ms;
dsem_redis_timeout 600ms;
dsem_lease 2s;
location /local {
    dsem api limit=6 queue=60 timeout=20s;
    proxy_set_header X-Sem %%NODE%%;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

# A fleet with a Redis of its own for each way to lose it: all outages last at
# the same time.
sub fleet {
    my ($how, $goes, $comes) = @_;
    my $redis = $t->redis;
    my $proxy = $t->proxy($redis->address);
    my $up = $t->upstream;
    my @nodes = map { $t->node("$how$_", $conf, REDIS => $proxy->address) }
        1 .. 3;
    return { how => $how, goes => $goes, comes => $comes, redis => $redis,
        proxy => $proxy, up => $up, nodes => \@nodes, all => $nodes[0],
        none => [ @nodes[1, 2] ] };
}

sub load_on {
    my ($node, @ms) = @_;
    return $t->load_start(urls => [ map { $node->url("/local?t=$_") } @ms ],
        clients => 8, seconds => 60);
}

# the most concurrent requests of a node between two moments
sub most {
    my ($up, $node, $from, $to) = @_;
    my ($most, $before) = (0, 0);
    for ($up->levels($node)) {
        my ($time, $level) = @$_;
        $most = $before if $time > $from && $before > $most;
        last if $time > $to;
        $before = $level;
    }
    return $before > $most ? $before : $most;
}

sub full {
    my ($fleet) = @_;
    my ($up, $all) = @$fleet{qw(up all)};
    $fleet->{first} = load_on($all, @LONG);
    wait_for { $up->now($all->name) == $LIMIT && $up->served > 2 } 15,
        'all permits in one worker';
}

sub loses {
    my ($fleet) = @_;
    # where the scripts take longer than the timeout, Redis is unavailable at first
    $_->clear_logs for @{ $fleet->{nodes} };
    $fleet->{gone} = now;
    $fleet->{goes}->($fleet);
    $fleet->{tried} = $fleet->{proxy}->accepted;
}

sub alone {
    my ($fleet) = @_;
    my ($how, $up, $gone, $all) = @$fleet{qw(how up gone all)};
    my @none = map { $_->name } @{ $fleet->{none} };
    eventually { 2 == grep { $up->now($_) } @none }
        "$how: all workers serve eventually";
    my ($start) = sort { $a <=> $b } map { $_->{start} }
        grep { $_->{sem} ne $all->name } $up->log;
    # with a heartbeat, from the last reply; a heartbeat may have been late, of one
    # worker or of all. By the fence it would be half a second earlier
    my $late = 1 - took($gone - 1, $gone);
    cmp_ok $start - $gone, '>', $LEASE - 0.4 - $late,
        "$how: others wait one lease";
    cmp_ok took($gone, $start), '<', 2 * $LEASE + 4,
        "$how: others serve after lease";
    ok scalar(grep { $_->{sem} eq $all->name && $_->{start} > $gone + 0.5 }
            grep { $_->{start} < $start } $up->log),
        "$how: holder keeps serving";
    $fleet->{start} = $start;
}

# requests running at the cut have ended, and all workers serve
sub share {
    my (@fleets) = @_;
    for my $fleet (@fleets) {
        wait_for { $SHARE >= $fleet->{up}->now($fleet->{all}->name) } 15,
            'the share';
        @$fleet{qw(shared served)} = (now, $fleet->{up}->served);
    }
    for my $fleet (@fleets) {
        wait_for { $fleet->{up}->served > $fleet->{served} + 5 * $LIMIT } 15,
            'all workers to serve';
        $fleet->{until} = now;
    }
}

sub shared {
    my ($fleet) = @_;
    my ($how, $up, $gone, $proxy) = @$fleet{qw(how up gone proxy)};
    my @nodes = @{ $fleet->{nodes} };
    is most($up, $_->name, @$fleet{qw(shared until)}), $SHARE,
        "$how: equal shares" for @nodes;
    is $up->peak, $LIMIT, "$how: limit reached, never exceeded";
    my $seconds = now - $gone;
    my $tries = $proxy->accepted - $fleet->{tried};
    # two connections, each after a pause of 7/48 of the lease on the average
    cmp_ok $tries, '<', @nodes * 4 * 48 / 7 / $LEASE * $seconds + 20,
        "$how: few reconnect attempts";
    note sprintf '%s: others after %.2f s, %d attempts in %.1f s', $how,
        $fleet->{start} - $gone, $tries, $seconds;
}

sub comes {
    my ($fleet) = @_;
    $fleet->{tried} = $fleet->{proxy}->accepted;
    # for a quarter of the lease, half a second, requests that a worker has admitted
    # by itself are unknown to Redis: these have ended
    $_->stop->wait for @{ $fleet->{others} };
    $fleet->{comes}->($fleet);
    $fleet->{back} = now;
}

sub returned {
    my ($fleet) = @_;
    my ($how, $up, $proxy) = @$fleet{qw(how up proxy)};
    my @nodes = @{ $fleet->{nodes} };
    eventually { $up->now($fleet->{all}->name) == $LIMIT }
        "$how: one worker uses all", 10;
    my $took = took($fleet->{back});
    cmp_ok $took, '<', 5, "$how: reconnected in time";
    cmp_ok $proxy->accepted - $fleet->{tried}, '<', 8 * @nodes,
        "$how: no stampede";
    note sprintf '%s: back after %.2f s', $how, $took;
    is $up->peak, $LIMIT, "$how: limit kept on return";
    $fleet->{first}->stop;
}

sub ended {
    my ($fleet) = @_;
    my $how = $fleet->{how};
    my @nodes = @{ $fleet->{nodes} };
    my @ended = map { $_->wait } $fleet->{first}, @{ $fleet->{others} };
    my %status;
    for my $result (@ended) {
        my $of = $result->{statuses};
        $status{$_} += $of->{$_} for keys %$of;
    }
    is_deeply [ keys %status ], [200], "$how: all requests served"
        or diag explain \%status;
    my %said;
    $said{ $_->{dsem_status} }++
        for map { $_->access_log } @{ $fleet->{none} };
    ok $said{DEGRADED}, "$how: status is DEGRADED";
    is scalar(map { $_->grep_log(qr/unavailable \(/) } @nodes), 3,
        "$how: one outage line each";
    # one may read the reply later than the others
    wait_for { 3 == grep { $_->grep_log(qr/available again/) } @nodes } 15,
        'all available again';
    is scalar(map { $_->grep_log(qr/available again/) } @nodes), 3,
        "$how: one recovery line each";
}

my @fleets = (
    fleet('cut', sub { $_[0]{proxy}->refuse; $_[0]{proxy}->cut },
        sub { $_[0]{proxy}->refuse(0) }),
    fleet('frozen', sub { $_[0]{redis}->freeze }, sub { $_[0]{redis}->thaw }),
    ($ENV{DSEM_LONG} ? fleet('stopped', sub { $_[0]{redis}->kill },
        sub { $_[0]{redis}->start }) : ()),
);
full($_) for @fleets;
# each has seen the others
$fleets[0]{redis}->all_beat(3, map { $_->{redis} } @fleets[1 .. $#fleets]);
loses($_) for @fleets;
# later requests see the share sooner after the lease
my $gone = now;
wait_for { now > $gone + $LEASE / 2 } 15, 'half a lease';
for my $fleet (@fleets) {
    $fleet->{others} = [ map { load_on($_, @SHORT) } @{ $fleet->{none} } ];
}
alone($_) for @fleets;
share(@fleets);
shared($_) for @fleets;
comes($_) for @fleets;
returned($_) for @fleets;
ended($_) for @fleets;

$t->done;
