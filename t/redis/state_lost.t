#!/usr/bin/perl

# Redis is emptied under load, with the connections open or cut, while one node
# cannot reach it. A new generation notifies all workers: running requests are
# declared before anything new is granted, and service resumes after about one
# lease.

use lib 't/lib';
use Dsem::Test;

my $LEASE = 1;

my $t = Dsem::Test->new(lease => $LEASE);

my $conf = <<'EOF_CONF';
worker_processes 1;
dsem_lease 1s;
location /emptied {
    dsem api limit=4 queue=100 timeout=20s;
    dsem_on_error reject;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

# with a Redis of its own for each way: both at the same time
sub lane {
    my ($how, $lose) = @_;
    my $redis = $t->redis;
    my $proxy = $t->proxy($redis->address);
    my $up = $t->upstream(service => 0.020);
    my @fleet = map { $t->node("$how$_", $conf) } 1, 2;
    $t->node("cut_off-$how", $conf, REDIS => $proxy->address);
    return { how => $how, lose => $lose, redis => $redis, proxy => $proxy,
        up => $up, fleet => \@fleet, state => Dsem::State->new($redis) };
}

# half of the permits with requests that outlive the loss, the rest in use
sub full {
    my ($lane) = @_;
    my ($up, $redis, $fleet) = @$lane{qw(up redis fleet)};
    # each has seen the others: else the census would not wait for all of them
    $redis->all_beat(3);
    $lane->{long} = [ map { $_->begin('/emptied?hang=1') } @$fleet ];
    wait_for { $up->now == 2 } 15, 'long requests';
    $lane->{load} = $t->load_start(clients => 8, seconds => 3600,
        urls => [ map { $_->url('/emptied') } @$fleet ]);
    wait_for { $up->peak == 4 && $up->served > 5 } 15, 'load';
}

sub loses {
    my ($lane) = @_;
    my ($how, $redis, $state) = @$lane{qw(how redis state)};
    my $generation = $state->shard('gen') // 0;
    $lane->{proxy}->freeze;
    $lane->{lose}->($redis);
    $lane->{lost} = now;
    eventually { ($state->shard('gen') || $generation) != $generation }
        "$how: new generation";
    eventually { $state->held('api') >= 2 } "$how: permits declared";
}

# all of them at each look: the end of one is when it is seen
sub recover {
    my (@lanes) = @_;
    wait_for {
        $_->{recovered} //= now
            for grep { !$_->{redis}->recovering } @lanes;
        !grep { !$_->{recovered} } @lanes;
    } 15, 'the end of the recovery';
}

sub survives {
    my ($lane) = @_;
    my ($how, $up, $lost, $recovered) = @$lane{qw(how up lost recovered)};
    my ($pause, $took) = ($recovered - $lost, took($lost, $recovered));
    my $served = $up->served;
    wait_for { $up->served > $served + 20 } 15, 'service';
    my $statuses = $lane->{load}->stop->wait->{statuses};
    my @back = sort { $a <=> $b } grep { $_ > $lost + 0.3 }
        map { $_->{start} } $up->log;
    cmp_ok $pause, '>', $LEASE / 2, "$how: recovery waits for the third";
    cmp_ok $took, '<', $LEASE + 2, "$how: recovery lasts one lease";
    cmp_ok scalar(@back), '>', 20, "$how: service resumes";
    is $up->peak, 4, "$how: limit reached, never exceeded";
    is_deeply [ keys %$statuses ], [200], "$how: every request served"
        or diag explain $statuses;
    note sprintf '%s: over after %.2f s', $how, $pause;

    is $up->release_all, 2, "$how: long requests still running";
    is $_->wait->status, 200, "$how: long requests served"
        for @{ $lane->{long} };
    is scalar(map { $_->grep_log(qr/\[warn\].*lost its state/) }
        @{ $lane->{fleet} }), 2, "$how: one line per worker";
}

my @lanes = (
    lane('open', sub { $_[0]->cmd('FLUSHALL') }),
    lane('cut', sub {
        $_[0]->cmd('FLUSHALL');
        $_[0]->client_kill;
    }),
);
full($_) for @lanes;
loses($_) for @lanes;
recover(@lanes);
survives($_) for @lanes;
for my $proxy (map { $_->{proxy} } @lanes) {
    $proxy->cut;
    $proxy->thaw;
}

$t->done;
