package Bench::AutoFleet;

# Fleets with "limit=auto" in front of a backend with a knee: beyond so many
# requests at a time all of them take longer, in proportion. One of three nodes
# with two workers each, one of a single worker, and six single workers that
# know nothing of each other (another dsem_prefix each).
#
# Called by: Bench::Auto.

use strict;
use warnings;

use List::Util qw(max sum0);
use Time::HiRes qw(sleep);

use Dsem::Load;
use Dsem::Node;
use Dsem::State;
use Dsem::Upstream;
use Dsem::Wait qw(now took wait_for time_factor);

use constant {
    KNEE => 20, MS => 50,   # of the backend; service time up to its knee
    HANDED_ON => 0.1,       # s between two requests of one permit, see exceeded
};

# nodes, workers of each, and the number of prefixes
my %FLEETS = (fleet => [3, 2, 1], one => [1, 1, 1], independent => [6, 1, 6]);

my $CONF = <<'EOF_CONF';
load_module %%MODULE%%;
%%START%%
worker_processes %%WORKERS%%;
worker_rlimit_nofile 16384;
events { worker_connections 4096; }
http {
    dsem_redis %%REDIS%%;
    dsem_redis_connect_timeout 10s;
    dsem_redis_timeout 10s;
    dsem_node %%NODE%%;
    dsem_prefix %%PREFIX%%;
    dsem_on_error reject;
    access_log off;
    keepalive_requests 1000000000;
    upstream backend {
        server %%BACKEND%%;
        keepalive 256;
        keepalive_requests 1000000000;
    }
    proxy_http_version 1.1;
    proxy_set_header Connection "";
    proxy_set_header X-Limit $dsem_limit;
    proxy_read_timeout 120s;
    server {
        listen 127.0.0.1:%%PORT%% reuseport backlog=4096;
        location /auto {
            dsem auto limit=auto queue=1000 timeout=60s;
            proxy_pass http://backend;
        }
        location /fixed {
            dsem fixed limit=%%KNEE%% queue=1000 timeout=60s;
            proxy_pass http://backend;
        }
    }
}
EOF_CONF

# clients: in a closed loop; with 250 every limit in use is reached
sub new {
    my ($class, $stage, $clients) = @_;
    return bless { stage => $stage, clients => $clients, fleets => {},
        backend => Dsem::Upstream->new($stage, 'backend') }, $class;
}

# The nodes of a fleet, started at its first use, and its states.
sub fleet {
    my ($self, $which) = @_;
    return $self->{fleets}{$which} if $self->{fleets}{$which};
    my $stage = $self->{stage};
    my ($nodes, $workers, $prefixes) = @{ $FLEETS{$which} };
    my @prefixes = map { "$which$_" } 1 .. $prefixes;
    my @nodes = map {
        $stage->node("$which$_", $CONF, WORKERS => $workers, KNEE => KNEE,
            MODULE => Dsem::Node::Conf::module(),
            REDIS => $stage->redis->address,
            PREFIX => $prefixes[ ($_ - 1) % $prefixes ],
            BACKEND => $self->{backend}->address)
    } 1 .. $nodes;
    my @states = map { Dsem::State->new($stage->redis, "$_:{0}") } @prefixes;
    wait_for {
        !grep { !$_->lowest_limit('auto') } @states
    } 15, 'the limits to be stated';
    return $self->{fleets}{$which} = { nodes => \@nodes, states => \@states };
}

# Begins with another limit, and without anything that was learned.
sub begin_with {
    my ($self, $limit, @states) = @_;
    for my $state (@states) {
        my $field = 'limit:auto';
        my $text = $state->shard($field);
        $state->cmd('DEL', $state->auto_key('auto'));
        $state->set_shard($field => $text =~ s/^\d+/$limit/r);
    }
}

# Runs a load in phases of [seconds, knee]. path: auto or fixed. Returns the
# limits in force, [s, limit ...] each, the requests, [start, end, limit] each,
# and the statuses; times count from the beginning.
sub run {
    my ($self, $which, $path, $start, @phases) = @_;
    my ($stage, $backend) = @$self{qw(stage backend)};
    my $fleet = $self->fleet($which);
    wait_for { $backend->now == 0 } 30, 'the backend to finish';
    $backend->reset;
    $self->begin_with($start, @{ $fleet->{states} }) if $path eq 'auto';

    my @base = map { $_->url("/$path") } @{ $fleet->{nodes} };
    my $seconds = sum0(map { $_->[0] } @phases);
    my $begin;
    my $load = Dsem::Load->new($stage, clients => $self->{clients},
        keepalive => 1, seconds => $seconds, timeout => 120, request => sub {
            $begin //= now;
            my $left = now - $begin;
            my ($knee) = grep { ($left -= $_->[0]) < 0 } @phases;
            sprintf '%s?t=%d&knee=%d', $base[ $_[0] % @base ], MS,
                ($knee // $phases[-1])->[1];
        });
    my @limits;
    while ($load->running && @limits < 20 * $seconds) {
        push @limits, [now, map { $_->lowest_limit('auto') }
            @{ $fleet->{states} }] if $path eq 'auto';
        sleep 0.05;
    }
    my $result = $load->wait;
    my @log = grep { $_->{end} } $backend->log;
    my $from = $result->{begin};
    return {
        limits => [ map { [$_->[0] - $from, @$_[1 .. $#$_]] } @limits ],
        requests => [ map { [$_->{start} - $from, $_->{end} - $from,
            $_->{limit}] } @log ],
        statuses => $result->{statuses}, begin => $from,
    };
}

# Requests with which more ran than any limit at which one of them was let in:
# the last one that got its permit did so while no more than its limit were out.
# One that has ended shortly before may have handed on its permit: a worker whose
# reply is late does so while a lowered limit drains. Stalls of the machine do
# not count.
sub exceeded {
    my ($seen) = @_;
    my @events = sort { $a->[0] <=> $b->[0] || $a->[1] <=> $b->[1] } map {
        ([$_->[0], 1, $_], [$_->[1], 0, $_])
    } @{ $seen->{requests} };
    my ($begin, $handed_on) = ($seen->{begin}, HANDED_ON * time_factor);
    my (%running, @ended, $exceeded);
    for my $event (@events) {
        my ($now, $starts, $request) = @$event;
        if (!$starts) {
            push @ended, [$now, delete $running{$request}];
            next;
        }
        $running{$request} = $request->[2];
        next if keys %running <= $request->[2];
        shift @ended while @ended && $ended[0][0] < $now - $handed_on
            && took($begin + $ended[0][0], $begin + $now) > $handed_on;
        $exceeded++
            if keys %running > max(values %running, map { $_->[1] } @ended);
    }
    return $exceeded // 0;
}

1;
