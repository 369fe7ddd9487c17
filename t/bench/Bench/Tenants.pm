package Bench::Tenants;

# Tenants that share one cap: a fleet of three nodes with two workers each, a
# backend that counts, and loads with random arrivals at rates that do not
# depend on responses. Waits and rejections are those of the access logs,
# permits in use those of the backend.
#
# Called by: Bench::Fair.

use strict;
use warnings;

use List::Util qw(sum0);
use Time::HiRes ();

use Dsem::Load;
use Dsem::Node;
use Dsem::Upstream;
use Dsem::Wait qw(now wait_for);

use constant {
    NODES => 3, WORKERS => 2, LIMIT => 12, QUEUE => $ENV{QUEUE} || 100,
    MS => 50,               # service time, and a fifth more or less
    SPREAD => 0.2,
};

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
    dsem_on_error reject;
    dsem_status 503 error=500;
    dsem_reuse 100ms;
    dsem_log_level info;
    log_format tenants '$msec $arg_tenant $status $dsem_wait_time';
    access_log %%DIR%%/access.log tenants;
    keepalive_requests 1000000000;
    upstream backend {
        server %%BACKEND%%;
        keepalive 64;
        keepalive_requests 1000000000;
    }
    proxy_http_version 1.1;
    proxy_set_header Connection "";
    server {
        listen 127.0.0.1:%%PORT%% backlog=4096;
        %%LOCATIONS%%
    }
}
EOF_CONF

sub new {
    my ($class, $stage) = @_;
    my $backend = Dsem::Upstream->new($stage, 'backend');
    my $redis = $stage->redis;
    my @nodes = map {
        $stage->node("node$_", $CONF, WORKERS => WORKERS,
            MODULE => Dsem::Node::Conf::module(), REDIS => $redis->address,
            BACKEND => $backend->address, LOCATIONS => locations($_))
    } 1 .. NODES;
    return bless { stage => $stage, backend => $backend,
        nodes => \@nodes }, $class;
}

# "node": as if each node had a fair queue and a part of the limit of its own.
sub locations {
    my ($node) = @_;
    my $cap = sprintf 'limit=%d queue=%d timeout=30s', LIMIT, QUEUE;
    my %line = (plain => "dsem plain $cap", fair => "dsem fair $cap "
        . 'fair=$arg_tenant', node => sprintf("dsem node-$node limit=%d "
            . 'queue=%d timeout=30s fair=$arg_tenant', LIMIT / NODES,
            QUEUE / NODES));
    $line{"share$_"} = "dsem shares $cap fair=\$arg_tenant share=$_"
        for 1, 2, 4;
    return join ' ', map {
        "location /$_/ { $line{$_}; proxy_pass http://backend; }"
    } sort keys %line;
}

# Runs a load of so many seconds after the warm-up. tenants: { name, rate,
# path, ms, node (the only one that it uses, from 0 on) }, a rate is in requests
# per second. Returns the peak at the backend, the served requests per second,
# and of each tenant: sent, rejected, waits (s), in_use.
sub run {
    my ($self, $warm_up, $seconds, @tenants) = @_;
    my ($stage, $backend) = @$self{qw(stage backend)};
    wait_for { $backend->now == 0 } 30, 'the backend to finish';
    $_->clear_logs for @{ $self->{nodes} };
    $backend->reset;
    my ($at, $urls) = $self->arrivals($warm_up + $seconds, @tenants);
    my $load = Dsem::Load->new($stage, at => $at, keepalive => 1,
        timeout => 120, request => sub { $urls->[ $_[0] ] })->wait;
    my $from = $load->{begin} + $warm_up;
    my @log = $backend->log;
    my $lines = $self->lines($from, $from + $seconds);
    return {
        peak => $backend->peak, statuses => $load->{statuses},
        rate => scalar(grep { $_->{how} eq 'answered' && $_->{end} >= $from
            && $_->{end} < $from + $seconds } @log) / $seconds,
        tenant => { map {
            my $name = $_->{name};
            $name => {
                %{ $lines->{$name} // { sent => 0, rejected => 0,
                    waits => [] } },
                in_use => in_use($from, $from + $seconds,
                    grep { $_->{uri} =~ /[?&]tenant=$name&/ } @log),
            }
        } @tenants },
    };
}

# Ends the fleet, so that Redis has no other work.
sub end { $_->stop for @{ $_[0]{nodes} } }

# Seconds, and the URL of each request; nodes in turn.
sub arrivals {
    my ($self, $seconds, @tenants) = @_;
    my @all;
    for my $tenant (@tenants) {
        my $at = 0;
        push @all, [$at, $tenant]
            while ($at -= log(1 - rand) / $tenant->{rate}) < $seconds;
    }
    my @base = map { $_->url('') } @{ $self->{nodes} };
    my $n = 0;
    @all = sort { $a->[0] <=> $b->[0] } @all;
    return [ map { $_->[0] } @all ], [ map {
        my $tenant = $_->[1];
        sprintf '%s/%s/?tenant=%s&t=%.1f',
            $base[ $tenant->{node} // $n++ % @base ],
            @$tenant{qw(path name)}, $tenant->{ms}
                * (1 - SPREAD + rand 2 * SPREAD);
    } @all ];
}

# What the nodes have logged in this time, by tenant.
sub lines {
    my ($self, @span) = @_;
    my $offset = Time::HiRes::time() - now;
    my ($from, $to) = map { $_ + $offset } @span;
    my %of;
    for my $node (@{ $self->{nodes} }) {
        open my $fh, '<', $node->dir . '/access.log' or next;
        while (my $line = <$fh>) {
            my ($time, $tenant, $status, $wait) = split ' ', $line;
            next if $time < $from || $time >= $to;
            my $of = $of{$tenant} //= { sent => 0, rejected => 0,
                waits => [] };
            $of->{sent}++;
            $status eq '200' ? push @{ $of->{waits} }, $wait
                : $of->{rejected}++;
        }
    }
    return \%of;
}

# Requests at the backend in this time, on average.
sub in_use {
    my ($from, $to, @log) = @_;
    return sum0(map {
        my ($start, $end) = @$_{qw(start end)};
        $start = $from if $start < $from;
        $end = $to if !$end || $end > $to;
        $end > $start ? $end - $start : 0;
    } @log) / ($to - $from);
}

1;
