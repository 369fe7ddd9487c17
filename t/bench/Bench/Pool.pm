package Bench::Pool;

# Servers with one slot each behind two nodes of two workers: a limit of the
# total, the same with "max_conns", and a pool. A request "at a taken slot" came
# to a server that had not finished the one before.
#
# Called by: pool.pl.

use strict;
use warnings;

use List::Util qw(max);

use Dsem::Load;
use Dsem::Node;
use Dsem::State;
use Dsem::Upstream;
use Dsem::Wait qw(wait_for);

use constant {
    SERVERS => 4, MS => 50,     # of work for each request
    NODES => 2, WORKERS => 2,
    CLIENTS => 24,              # of the full load, in a closed loop
    PART => 0.7,                # of what the servers can do, at random times
};

my $CONF = <<'EOF_CONF';
load_module %%MODULE%%;
%%START%%
worker_processes %%WORKERS%%;
events { worker_connections 1024; }
http {
    dsem_redis %%REDIS%%;
    dsem_redis_connect_timeout 10s;
    dsem_redis_timeout 10s;
    dsem_lease 30s;
    dsem_node %%NODE%%;
    access_log off;
    keepalive_requests 1000000000;
    upstream total {
        zone total 64k;
        least_conn;
        %%SERVERS%%
        keepalive 16;
    }
    upstream conns {
        zone conns 64k;
        least_conn;
        %%MAX_CONNS%%
        keepalive 16;
    }
    upstream pool {
        zone pool 64k;
        least_conn;
        %%SERVERS%%
        dsem pool limit=1/server queue=1000 timeout=60s;
        keepalive 16;
    }
    proxy_http_version 1.1;
    proxy_set_header Connection "";
    proxy_read_timeout 120s;
    server {
        listen 127.0.0.1:%%PORT%% reuseport backlog=4096;
        location /total {
            dsem total limit=%%TOTAL%% queue=1000 timeout=60s;
            proxy_pass http://total;
        }
        location /conns {
            dsem conns limit=%%TOTAL%% queue=1000 timeout=60s;
            proxy_pass http://conns;
        }
        location /pool { proxy_pass http://pool; }
    }
}
EOF_CONF

sub subjects { qw(total conns pool) }
sub loads { qw(full part) }

sub new {
    my ($class, $stage) = @_;
    my @servers = map { Dsem::Upstream->new($stage, "server$_") }
        1 .. SERVERS;
    my $all = sub {
        my ($more) = @_;
        join ' ', map { 'server ' . $_->address . "$more;" } @servers;
    };
    my @nodes = map {
        $stage->node("node$_", $CONF, WORKERS => WORKERS, TOTAL => SERVERS,
            MODULE => Dsem::Node::Conf::module(),
            REDIS => $stage->redis->address, SERVERS => $all->(''),
            MAX_CONNS => $all->(' max_conns=1'))
    } 1 .. NODES;
    my $state = Dsem::State->new($stage->redis);
    wait_for {
        $state->subscribed == NODES * WORKERS
    } 15, 'all workers to be connected';
    return bless { stage => $stage, servers => \@servers, nodes => \@nodes,
        seen => {}, statuses => {} }, $class;
}

# Requests per second that the servers can do.
sub capacity { 1000 * SERVERS / MS }

# All subjects with each load, for so many seconds. Requests of a part come at
# the same random times to each subject.
sub round {
    my ($self, $seconds) = @_;
    my ($at, @at) = (0);
    while (($at -= log(1 - rand) / (PART * capacity())) < $seconds) {
        push @at, $at;
    }
    my %load = (
        full => [ clients => CLIENTS, seconds => $seconds ],
        part => [ at => @at ? \@at : [0] ],
    );
    for my $load (loads()) {
        $self->run($_, $load, $seconds, @{ $load{$load} })
            for subjects();
    }
}

sub run {
    my ($self, $subject, $name, $seconds, @load) = @_;
    $_->reset for @{ $self->{servers} };
    my @url = map {
        $_->url("/$subject?t=" . MS . '&slots=1')
    } @{ $self->{nodes} };
    my $result = Dsem::Load->new($self->{stage}, @load, keepalive => 1,
        records => 1, timeout => 120, urls => \@url)->wait;
    my $seen = $self->{seen}{$subject}{$name} //= { seconds => 0 };
    $seen->{seconds} += $seconds;
    push @{ $seen->{ms} }, map { 1000 * $_->{latency} }
        grep { $_->{status} eq '200' } @{ $result->{records} };
    my $end = $result->{begin} + $seconds;
    for my $server (@{ $self->{servers} }) {
        my $busy = 0;
        for my $request (sort { $a->{start} <=> $b->{start} } $server->log) {
            my $ended = $request->{end} // 'inf';
            $seen->{requests}++;
            $seen->{taken}++ if $request->{start} < $busy;
            $seen->{served}++ if $ended <= $end;
            $busy = max($busy, $ended);
        }
    }
    $self->{statuses}{$_} += $result->{statuses}{$_}
        for keys %{ $result->{statuses} };
}

sub statuses { %{ $_[0]{statuses} } }

# Requests at a taken slot: their number, and in percent of all.
sub taken {
    my ($self, $subject, $load) = @_;
    my $seen = $self->{seen}{$subject}{$load};
    my $taken = $seen->{taken} // 0;
    return $taken, $seen->{requests} ? 100 * $taken / $seen->{requests} : 0;
}

# Requests per second, and the 99th percentile of their time in ms.
sub figures {
    my ($self, $subject, $load) = @_;
    my $seen = $self->{seen}{$subject}{$load};
    my @ms = sort { $a <=> $b } @{ $seen->{ms} };
    return ($seen->{served} // 0) / $seen->{seconds},
        $ms[ int 0.99 * $#ms ];
}

1;
