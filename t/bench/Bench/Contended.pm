package Bench::Contended;

# The cap is reached: two nodes with two workers each, and ten times as many
# clients as the limit allows, each with one request at a time. The backend
# counts. With one queue a request takes clients * service / limit, and no other
# distribution of waits has a shorter worst case. For comparison the machine's
# own capacity: as many clients as the limit allows, without cap and queue.
#
# Called by: bench.pl.

use strict;
use warnings;

use List::Util qw(max min sum0);
use Time::HiRes qw(sleep);

use Bench::Proc;
use Bench::Quiet;
use Bench::Stats qw(jain median);
use Bench::Subject;
use Bench::Wrk;

use constant {
    NODES => 2, WORKERS => 2,
    SUBJECTS => [qw(plain reuse no_reuse lua haproxy)],
    CASES => [
        { name => 'ten', limit => 10, clients => 100, ms => 20 },
        { name => 'hundred', limit => 100, clients => 1000, ms => 20 },
        { name => 'one', limit => 1, clients => 8, ms => 2 },
    ],
};

$_->{path} = "/sleep/$_->{ms}", $_->{queue} = 10_000 for @{ CASES() };

sub new {
    my ($class, $stage, $backend, %opt) = @_;
    my $self = bless { stage => $stage, backend => $backend, %opt,
        seen => {} }, $class;
    $self->unpin;
    $self->{subjects} = [ map {
        Bench::Subject->start($stage, $_, nodes => NODES, cases => CASES,
            workers => WORKERS, backend => $backend)
    } @{ SUBJECTS() } ];
    return $self;
}

sub unpin {
    my ($self) = @_;
    Bench::Proc::pin($_, Bench::Proc::cpus())
        for $self->{stage}->redis->pid, $self->{backend}->pids;
}

sub subjects { @{ $_[0]{subjects} } }
sub cases { @{ CASES() } }

sub round {
    my ($self) = @_;
    for my $case ($self->cases) {
        for my $subject ($self->subjects) {
            my %seen = $self->load($case, $subject);
            my $all = $self->{seen}{ $case->{name} }{ $subject->key } //= {};
            push @{ $all->{$_} }, $seen{$_} for keys %seen;
        }
    }
}

sub load {
    my ($self, $case, $subject) = @_;
    my ($stage, $backend) = @$self{qw(stage backend)};
    my @urls = $subject->urls($case);
    my $clients = clients($case, $subject);
    @urls = @urls[ 0 .. min($clients, NODES) - 1 ];
    my @wrks = map {
        Bench::Wrk->start($stage, $_, $clients / @urls)
    } @urls;
    # until every client has been served once
    sleep 0.2 + ideal($case, $subject, $case->{ms} / 1000);
    my $before = $self->look($subject);
    sleep $self->{seconds};
    my $after = $self->look($subject);
    my @seen = map { $_->stop } @wrks;
    $backend->settle;
    return (
        at_backend($case, $subject, $before->{backend}, $after->{backend}),
        at_redis($subject, $before, $after),
        at_clients($subject, @seen),
    );
}

sub look {
    my ($self, $subject) = @_;
    my $redis = $self->{stage}->redis;
    return {
        calls => $redis->calls, backend => $self->{backend}->report,
        redis => Bench::Proc::cpu($redis->pid),
    };
}

sub clients {
    my ($case, $subject) = @_;
    return $case->{ $subject->capped ? 'clients' : 'limit' };
}

# Ideal seconds from a request to its response.
sub ideal {
    my ($case, $subject, $service) = @_;
    return clients($case, $subject) * $service / $case->{limit};
}

sub at_backend {
    my ($case, $subject, $before, $after) = @_;
    my $n = $after->{served} - $before->{served} or return;
    my $service = ($after->{took} - $before->{took}) / $n;
    return (
        peak => max($before->{peak}, $after->{peak}),
        service => 1e3 * $service,
        ideal => 1e3 * ideal($case, $subject, $service),
        goodput => $n * $service
            / ($case->{limit} * ($after->{time} - $before->{time})),
    );
}

sub at_redis {
    my ($subject, $before, $after) = @_;
    my $n = $after->{backend}{served} - $before->{backend}{served} or return;
    my $calls = Bench::Quiet::redis_calls($subject, $before->{calls},
        $after->{calls});
    return (
        sent => $calls->{sent} / $n,
        redis => 1e6 * ($after->{redis} - $before->{redis}) / $n,
    );
}

# Where a subject rejects, waits are not known: a client retries until served.
sub at_clients {
    my ($subject, @seen) = @_;
    my @served = map { $_->{requests} - $_->{refused} } @seen;
    my $served = sum0(@served) or return;
    return (
        refused => sum0(map { $_->{refused} } @seen) / $served,
        jain => jain(@served),
        $subject->refuses ? () : (
            p50 => Bench::Wrk::latency(0.5, @seen),
            p99 => Bench::Wrk::latency(0.99, @seen),
            max => Bench::Wrk::worst(@seen),
        ),
    );
}

# Medians over all rounds; of the peak the largest.
sub medians {
    my ($self, $case, $subject) = @_;
    my $seen = $self->{seen}{ $case->{name} }{ $subject->key };
    return map {
        $_ => $_ eq 'peak' ? max(@{ $seen->{$_} }) : median(@{ $seen->{$_} })
    } keys %$seen;
}

sub seen {
    my ($self, $name, $key, $what) = @_;
    return $self->{seen}{$name}{$key}{$what};
}

1;
