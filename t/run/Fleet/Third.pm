package Fleet::Third;

# The third act: four servers that work on one request at a time, behind both
# nodes. First with a limit of the total and "least_conn", by which each node
# chooses a server for itself; then with a limit for each server. The servers
# count.
#
# Called by: fleet.pl; Fleet has the upstreams and locations.

use strict;
use warnings;

use List::Util qw(max sum0);

use Dsem::Load;
use Dsem::Upstream;

use Fleet::Judge;
use Fleet::Watch;

use constant {
    SERVERS => 4, SERVICE => 0.05, CLIENTS => 24, NAMES => [qw(total pool)],
};

# seconds of a part, to --seconds
use constant SECONDS => 0.3;

# Sockets, so that they need no port: a node has them before they are started.
sub _socket { my ($dir, $n) = @_; return "$dir/server$n/http" }

# Lines of the http level.
sub upstreams {
    my ($dir) = @_;
    my @servers = map { '    server unix:' . _socket($dir, $_) . ';' }
        1 .. SERVERS;
    my $queue = 'queue=' . 2 * CLIENTS . ' timeout=30s;';
    return map {
        my ($name, @dsem) = @$_;
        ("upstream $name {", "    zone $name 64k;", '    least_conn;', @servers,
            @dsem, '    keepalive 16;', '}');
    } ['total'], ['pool', "    dsem pool limit=1/server $queue"];
}

# [location, lines] ...
sub locations {
    return (
        ['/total/', sprintf('dsem total limit=%d queue=%d timeout=30s;',
            SERVERS, 2 * CLIENTS), 'dsem_reuse 1s;',
            'proxy_pass http://total;'],
        # the line of the upstream only
        ['/pool/', 'dsem off;', 'dsem_reuse 1s;', 'proxy_pass http://pool;'],
    );
}

sub new {
    my ($class, $fleet, %opt) = @_;
    return bless { fleet => $fleet, seconds => $opt{seconds} }, $class;
}

sub names { @{ NAMES() } }
sub part_seconds { max(1, $_[0]{seconds} * SECONDS) }
# of all loads together
sub seconds { names() * $_[0]->part_seconds }

sub start {
    my ($self) = @_;
    $self->{server} = [ map {
        Dsem::Upstream->new($self->{fleet}, "server$_", ports => 0, unix => 1)
    } 1 .. SERVERS ];
    return $self;
}

# for Fleet::Watch
sub now { sum0(map { $_->now } @{ $_[0]{server} }) }
sub peak { max(map { $_->peak } @{ $_[0]{server} }) }
sub served { sum0(map { $_->served } @{ $_[0]{server} }) }

# Requests at each server.
sub running { map { $_->now } @{ $_[0]{server} } }

# One part; calls $progress meanwhile.
sub part {
    my ($self, $name, $progress) = @_;
    my $fleet = $self->{fleet};
    $_->reset for @{ $self->{server} };
    my $query = sprintf '?t=%d&slots=1', 1000 * SERVICE;
    my $load = Dsem::Load->new($fleet, seconds => $self->part_seconds,
        clients => CLIENTS, keepalive => 1, records => 1, timeout => 60,
        urls => [map { $fleet->url($_) . "/$name/$query" } $fleet->names]);
    Fleet::Watch::run($fleet, $load, $name, $progress, $self);
    my $result = $load->wait;
    $fleet->expect_settled($name);
    my @log = map { [$_->log] } @{ $self->{server} };
    return {
        name => $name, status => $result->{statuses}, peak => $self->peak,
        limit => $name eq 'pool' ? 1 : SERVERS,
        requests => sum0(map { scalar @$_ } @log),
        taken => sum0(map { scalar taken(@$_) } @log),
        response => [ map { $_->{latency} } grep { $_->{status} eq '200' }
            @{ $result->{records} } ],
    };
}

# Requests that came to a server whose slot was taken.
sub taken {
    my ($busy, @taken) = (0);
    for my $request (sort { $a->{start} <=> $b->{start} } @_) {
        push @taken, $request if $request->{start} < $busy;
        $busy = max($busy, $request->{end} // 'inf');
    }
    return @taken;
}

sub verdict { Fleet::Judge::third(@_) }

1;
