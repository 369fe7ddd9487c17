package Fleet::Second;

# The second act. First a tenant that sends ten times as much as each of three
# others, without and with "fair=". Then a backend with a knee that no
# configuration names: fixed limits, and "limit=auto". The backend counts.
#
# Called by: fleet.pl; Fleet has the locations.

use strict;
use warnings;

use List::Util qw(max sum0);

use Dsem::Load;
use Dsem::Wait qw(now);

use Fleet::Judge;
use Fleet::Machine;
use Fleet::Watch;

use constant {
    LIMIT => 10, SERVICE => 0.05, QUEUE => 50,
    TENANTS => [qw(noisy quiet1 quiet2 quiet3)],
    # of the share of a tenant, a quarter of the capacity
    QUIET => 0.5, TIMES => 10,
};

# beyond the knee the service time grows with the square of the load
use constant {
    KNEE => 20, KNEE_SERVICE => 0.04, STEEP => 2, CLIENTS => 100,
    MIN => 2, MAX => 100, FIXED => [5, 20, 100],
};

# seconds of a part, to --seconds; the first part of each is not counted
use constant {
    FAIR_SECONDS => 0.8, FIXED_SECONDS => 0.3, AUTO_SECONDS => 2,
    WARM_UP => 0.25, AUTO_WARM_UP => 0.5,
};

# [location, lines] ...
sub locations {
    my $dsem = sub {
        my ($name, $words) = @_;
        # shorter than the default: permits are back soon
        return ["/$name/", "dsem $name $words;", 'dsem_reuse 1s;',
            'proxy_pass http://backend;'];
    };
    my $shared = sprintf 'limit=%d queue=%d timeout=2s', LIMIT, QUEUE;
    my $queue = 'queue=' . 2 * CLIENTS . ' timeout=30s';
    return (
        $dsem->('shared', $shared),
        $dsem->('fair', "$shared fair=\$arg_tenant"),
        map({ $dsem->("fixed$_", "limit=$_ $queue") } @{ FIXED() }),
        $dsem->('auto', sprintf "limit=auto min=%d max=%d $queue", MIN, MAX),
    );
}

sub names { map { $_->[0] =~ m{^/(.*)/$} } locations() }

sub new {
    my ($class, $fleet, %opt) = @_;
    return bless { fleet => $fleet, seconds => $opt{seconds} }, $class;
}

sub capacity { LIMIT / SERVICE }
sub quiet_rate { QUIET * capacity() / @{ TENANTS() } }
sub rates { (TIMES * quiet_rate(), (quiet_rate()) x 3) }
# of all loads together
sub seconds {
    my ($self) = @_;
    return 2 * $self->fair_seconds + $self->auto_seconds
        + $self->fixed_limits * $self->fixed_seconds;
}

sub fair_seconds { $_[0]{seconds} * FAIR_SECONDS }
sub fixed_seconds { max(1, $_[0]{seconds} * FIXED_SECONDS) }
sub auto_seconds { $_[0]{seconds} * AUTO_SECONDS }

sub urls {
    my ($self, $path) = @_;
    return map { $self->{fleet}->url($_) . $path } $self->{fleet}->names;
}

# Runs a load, with $progress meanwhile; returns its records and the backend's.
sub play {
    my ($self, $name, $seconds, $progress, %load) = @_;
    my $fleet = $self->{fleet};
    my $backend = $fleet->backend;
    $backend->reset;
    my $begin = now;
    my $load = Dsem::Load->new($fleet, seconds => $seconds, keepalive => 1,
        records => 1, timeout => 60, %load);
    Fleet::Watch::run($fleet, $load, $name, $progress);
    my $result = $load->wait;
    return {
        name => $name, begin => $begin, end => $begin + $seconds,
        peak => $backend->peak, served => [$backend->log],
        records => $result->{records}, status => $result->{statuses},
    };
}

###########################################################################
# a noisy tenant

# Both parts.
sub fairness {
    my ($self, $progress) = @_;
    my $machine = Fleet::Machine->measure($self->{fleet}, $progress->());
    return map { $self->fair($_, $machine->again, $progress->()) }
        qw(shared fair);
}

# $name: "shared" or "fair".
sub fair {
    my ($self, $name, $machine, $progress) = @_;
    my $seconds = $self->fair_seconds;
    my ($at, $urls) = $self->arrivals($seconds, $name);
    my $seen = $self->play($name, $seconds, $progress, at => $at,
        request => sub { $urls->[ $_[0] ] });
    my $from = $seen->{begin} + WARM_UP * $seconds;
    $seen->{tenant} = { map {
        $_ => $self->tenant($seen, $_, $from)
    } @{ TENANTS() } };
    delete @$seen{qw(served records)};
    return { %$seen, limit => LIMIT, machine => $machine->end,
        rejected => rejected_of_quiet($seen) };
}

# Random arrivals, the same ones in each run: seconds, and URLs.
sub arrivals {
    my ($self, $seconds, $name) = @_;
    my (@all, @rates);
    srand 15;
    @rates = rates();
    for my $tenant (@{ TENANTS() }) {
        my ($at, $rate) = (0, shift @rates);
        push @all, [$at, $tenant]
            while ($at -= log(1 - rand) / $rate) < $seconds;
    }
    my @nodes = $self->urls("/$name/");
    my $n = 0;
    @all = sort { $a->[0] <=> $b->[0] } @all;
    return [ map { $_->[0] } @all ], [ map {
        $nodes[ $n++ % @nodes ] . "?tenant=$_->[1]&t=" . 1000 * SERVICE
    } @all ];
}

sub tenant {
    my ($self, $seen, $tenant, $from) = @_;
    my $own = qr/[?&]tenant=$tenant&/;
    my @sent = grep { $_->{url} =~ $own && $_->{start} >= $from }
        @{ $seen->{records} };
    my %status;
    $status{ $_->{status} }++ for @sent;
    return {
        requests => scalar @sent, status => \%status,
        in_use => in_use($from, $seen->{end},
            grep { $_->{uri} =~ $own } @{ $seen->{served} }),
        response => [ map { $_->{latency} } grep { $_->{status} eq '200' }
            @sent ],
    };
}

# Requests at the backend in this time, on average.
sub in_use {
    my ($from, $to, @served) = @_;
    return sum0(map {
        my ($start, $end) = @$_{qw(start end)};
        $start = $from if $start < $from;
        $end = $to if !$end || $end > $to;
        $end > $start ? $end - $start : 0;
    } @served) / ($to - $from);
}

###########################################################################
# a hidden knee

sub fixed_limits { @{ FIXED() } }

sub fixed {
    my ($self, $limit, $progress) = @_;
    return $self->knee("fixed$limit", $self->fixed_seconds, WARM_UP,
        $progress, sub { $limit });
}

sub auto {
    my ($self, $progress) = @_;
    my $fleet = $self->{fleet};
    my ($last, @history) = 0;
    return $self->knee('auto', $self->auto_seconds, AUTO_WARM_UP, sub {
        my ($state) = @_;
        my $limit = $fleet->limit('auto') // $last;
        $progress->({ %$state, limit => $limit });
        return if $state->{seconds} > $self->auto_seconds;
        push @history, [$state->{seconds}, $last = $limit];
    }, sub { $last }, \@history);
}

sub knee {
    my ($self, $name, $seconds, $warm_up, $progress, $limit, $history) = @_;
    my $query = sprintf '?t=%d&knee=%d&steep=%d', 1000 * KNEE_SERVICE, KNEE,
        STEEP;
    my $seen = $self->play($name, $seconds, $progress, clients => CLIENTS,
        urls => [$self->urls("/$name/$query")]);
    my $from = $seen->{begin} + $warm_up * $seconds;
    my @served = grep { $_->{how} eq 'answered' && $_->{end} >= $from
        && $_->{end} < $seen->{end} } @{ $seen->{served} };
    return {
        name => $name, peak => $seen->{peak}, limit => $limit->(),
        history => $history, status => $seen->{status},
        rate => @served / ($seen->{end} - $from),
        service => [ map { $_->{end} - $_->{start} } @served ],
        response => [ map { $_->{latency} } grep { $_->{status} eq '200'
            && $_->{start} >= $from } @{ $seen->{records} } ],
    };
}

###########################################################################
# the result

sub verdict {
    my ($fair, $knee) = @_;
    return Fleet::Judge::second(@$fair,
        map { $_->{history} ? { %$_, limit => MAX } : $_ } @$knee);
}

sub rejected_of_quiet {
    my ($seen) = @_;
    my (undef, @quiet) = @{ TENANTS() };
    return sum0(map { $seen->{tenant}{$_}{status}{503} // 0 } @quiet);
}

sub sent_by_quiet {
    my ($seen) = @_;
    my (undef, @quiet) = @{ TENANTS() };
    return sum0(map { $seen->{tenant}{$_}{requests} } @quiet);
}

1;
