package Bench::Quiet;

# The cost of a cap that is not reached: one node, enough clients to keep it
# busy, a backend that responds at once, a limit above the number of clients.
# The cost of the API beside it: the subject with reuse is measured twice in a
# round, once while clients poll its semaphores.
#
# Called by: bench.pl.

use strict;
use warnings;

use Bench::Poller;
use Bench::Proc;
use Bench::Stats qw(median);
use Bench::Subject;
use Bench::Wrk;
use Dsem::Client;
use Dsem::Wait qw(now wait_for);

use Time::HiRes qw(sleep);

use constant {
    CLIENTS => 64,
    CASE => { name => 'quick', limit => 1000, queue => 100,
        path => '/quick' },
    # the API shows these too
    OTHERS => [map { +{ name => "other$_", limit => 1000, queue => 100,
        path => '/quick' } } 1 .. 4],
    SUBJECTS => [qw(plain limit_conn limit_conn_again reuse no_reuse lua
        haproxy)],
};

sub new {
    my ($class, $stage, $backend, %opt) = @_;
    my $self = bless { stage => $stage, backend => $backend, workers => 1,
        %opt, seen => {} }, $class;
    $self->{subjects} = [ map {
        Bench::Subject->start($stage, $_, nodes => 1,
            cases => [CASE, @{ OTHERS() }],
            workers => $self->{workers}, backend => $backend)
    } @{ SUBJECTS() } ];
    $self->pin if $self->pinned;
    return $self;
}

sub subjects { @{ $_[0]{subjects} } }
sub workers { $_[0]{workers} }

# One worker on the first CPU, all other processes on the others, so that the
# worker is the bottleneck.
sub pinned {
    my ($self) = @_;
    return $self->{workers} == 1 && Bench::Proc::cpus() > 1;
}

sub pin {
    my ($self) = @_;
    my ($first, @others) = Bench::Proc::cpus();
    Bench::Proc::pin($_, $first)
        for map { $_->pids } $self->subjects;
    Bench::Proc::pin($_, @others)
        for $self->{stage}->redis->pid, $self->{backend}->pids;
    $self->{wrk_cpus} = \@others;
}

sub round {
    my ($self) = @_;
    for my $subject ($self->subjects) {
        $self->load($subject, $self->{seconds} / 10);
        my $alone = sub { $self->load($subject, $self->{seconds}) };
        my $polled = sub { $self->polled($subject) };
        my @runs = ([$subject->key, $alone]);
        push @runs, ['polled', $polled] if $subject->key eq 'reuse';
        # neither is always the first
        @runs = reverse @runs if $self->{measured}++ % 2;
        $self->note($_->[0], $_->[1]->()) for @runs;
    }
}

sub note {
    my ($self, $key, %seen) = @_;
    push @{ $self->{seen}{$key}{$_} }, $seen{$_} for keys %seen;
}

# The same while the API is polled; "alone": the share of a CPU that the polls
# take without other requests.
sub polled {
    my ($self, $subject) = @_;
    for my $url (map { $subject->urls($_) } @{ OTHERS() }) {
        my $status = Dsem::Client->new->get($url)->status;
        die "$url answered $status\n" if $status != 200;
    }
    my $poller = Bench::Poller->start($self->{stage}, $subject->api,
        cpus => $self->{wrk_cpus});
    my ($begin, $cpu) = (now, Bench::Proc::cpu($subject->pids));
    sleep $self->{seconds};
    my $alone = (Bench::Proc::cpu($subject->pids) - $cpu) / (now - $begin);
    my %seen = $self->load($subject, $self->{seconds});
    my $polls = $poller->stop;
    return (%seen, polls => $polls->{rate}, size => $polls->{size},
        alone => $alone);
}

sub load {
    my ($self, $subject, $seconds) = @_;
    my ($url) = $subject->urls(CASE);
    my $redis = $self->{stage}->redis;
    my %before = (calls => $redis->calls, redis => Bench::Proc::cpu(
        $redis->pid), front => Bench::Proc::cpu($subject->pids));
    my $wrk = Bench::Wrk->start($self->{stage}, $url, CLIENTS,
        cpus => $self->{wrk_cpus});
    sleep $seconds;
    my $seen = $wrk->stop;
    die $subject->title . " refused $seen->{refused} requests\n"
        if $seen->{refused};
    my $n = $seen->{requests} || 1;
    my $calls = redis_calls($subject, $before{calls}, $redis->calls);
    return (
        rate => $seen->{requests} / $seen->{seconds},
        p50 => Bench::Wrk::latency(0.5, $seen),
        p99 => Bench::Wrk::latency(0.99, $seen),
        front => 1e6 * (Bench::Proc::cpu($subject->pids) - $before{front})
            / $n,
        redis => 1e6 * (Bench::Proc::cpu($redis->pid) - $before{redis}) / $n,
        sent => $calls->{sent} / $n, inner => $calls->{inner} / $n,
    );
}

# Commands that the subject has sent, and commands called by its scripts.
sub redis_calls {
    my ($subject, $before, $after) = @_;
    my %sends = map { $_ => 1 } $subject->sends;
    my %calls = (sent => 0, inner => 0);
    # INFO is the benchmark's own command
    for my $name (grep { $_ ne 'info' } keys %$after) {
        my $n = $after->{$name} - ($before->{$name} // 0);
        $calls{ $sends{$name} ? 'sent' : 'inner' } += $n;
    }
    return \%calls;
}

# Medians over all rounds.
sub medians {
    my ($self, $subject) = @_;
    my $seen = $self->{seen}{ $subject->key };
    return map { $_ => median(@{ $seen->{$_} }) } keys %$seen;
}

sub seen {
    my ($self, $key, $what) = @_;
    return $self->{seen}{$key}{$what};
}

sub median_of { return median(@{ $_[0]->seen(@_[1, 2]) // [] }) }

1;
