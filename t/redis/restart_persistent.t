#!/usr/bin/perl

# Redis restarts with its state on disk: a complete append-only file, or a
# snapshot older than the running requests. Nothing in that state shows the
# restart, so every worker declares its permits first.

use lib 't/lib';
use Dsem::Test;

my ($LIMIT, $LEASE) = (4, 1);

my $t = Dsem::Test->new(lease => $LEASE);

my $conf = <<'EOF_CONF';
worker_processes 1;
dsem_lease 1s;
dsem_status 503 error=500;
location /kept {
    dsem api limit=4 queue=500 timeout=10s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

# before: what is written down is that nothing is held, then permits go out;
# each way has servers of its own, and both last at the same time
sub lane {
    my ($how, $args, $before) = @_;
    my $redis = $t->redis(args => $args);
    my $up = $t->upstream(service => 0.020);
    my @node = map { $t->node("$how$_", $conf) } 1, 2;
    $_->get('/kept?t=1') for @node;
    $before->($redis);
    $up->reset;
    my @long = map { $_->begin('/kept?hang=1') } @node;
    wait_for { $up->now == 2 } 15, 'long requests';
    my $load = $t->load_start(clients => 10, seconds => 3600,
        urls => [ map { $_->url('/kept') } @node ]);
    wait_for { $up->peak == $LIMIT && $up->served > 5 } 15, 'load';
    return { how => $how, redis => $redis, up => $up, long => \@long,
        load => $load, state => Dsem::State->new($redis) };
}

sub restarts {
    my ($lane) = @_;
    my ($how, $redis, $state) = @$lane{qw(how redis state)};
    my $generation = $state->shard('gen');
    $lane->{killed} = now;
    $redis->kill->start;
    is $state->shard('gen'), $generation, "$how: state restored";
    # the end of the last recovery: there was none before
    eventually { $state->shard('recover_until') > 0 }
        "$how: and not believed";
}

sub comes_back {
    my ($lane) = @_;
    my ($how, $up, $killed, $state) = @$lane{qw(how up killed state)};
    eventually {
        10 < grep { $_->{start} > $killed + $LEASE + 0.8 } $up->log;
    } "$how: service resumes";
    my $statuses = $lane->{load}->stop->wait->{statuses};
    is $up->peak, $LIMIT, "$how: limit reached, never exceeded";
    eventually { $state->held('api') == 2 }
        "$how: running requests declared";
    is_deeply [ grep { !/^(?:200|500)$/ } keys %$statuses ], [],
        "$how: every request ended" or diag explain $statuses;
    $up->release_all;
    is $_->wait->status, 200, "$how: long requests served"
        for @{ $lane->{long} };
}

my @lanes = (
    lane('aof', [qw(--appendonly yes --appendfsync always)], sub { }),
    lane('rdb', [qw(--dbfilename dump.rdb)], sub { $_[0]->cmd('SAVE') }),
);
restarts($_) for @lanes;
comes_back($_) for @lanes;

$t->done;
