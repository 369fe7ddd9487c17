package Fleet::Scene;

# The scenes of the demonstration with three nodes: the load, what is shown
# meanwhile, and a table of the result. A scene reaches the nodes by HTTP only,
# so it is the same with containers and without.
#
#   new(dir => …, nodes => [addresses], screen => Fleet::Screen,
#       restart => sub: restarts Redis, seconds => of a scene)
#   run('burst')      returns { status => { code or word => requests } }
#
# Called by: demo.pl, and scene.pl in a container.

use strict;
use warnings;

use Dsem::Client;
use Dsem::Load;
use Dsem::Wait qw(now);

use Fleet::Screen;

# limit 10, 50 ms: that of packaging/demo/nginx.conf
use constant CAPACITY => 200;

# name => [title, [part, path, tenant => [[rate, from, to] ...] ...] ...]; from
# and to are parts of the time
my %SCENE = (
    burst => ['120 requests/s, and 400/s for a fifth of the time',
        ['one limit', '/reports/',
            all => [[120, 0, 0.3], [400, 0.3, 0.5], [120, 0.5, 1]]]],
    tenant => ['300 requests/s, beside three with 20/s each',
        map { [@$_, noisy => [[300, 0, 0.5]],
            map { $_ => [[20, 0, 0.5]] } qw(quiet1 quiet2 quiet3)] }
            ['without "fair="', '/reports/'],
            ['with "fair=$arg_tenant"', '/shares/']],
    redis => ['Redis is restarted at half of the time, with 120 requests/s',
        ['one limit', '/reports/', all => [[120, 0, 1]]]],
);

sub names { qw(burst tenant redis) }
sub title { $SCENE{ $_[1] }[0] }

sub new {
    my ($class, %opt) = @_;
    return bless { seconds => 10, %opt }, $class;
}

sub dir { $_[0]{dir} }

sub run {
    my ($self, $name) = @_;
    my ($title, @parts) = @{ $SCENE{$name} };
    my $screen = $self->{screen};
    $screen->say('', "Scene \"$name\": $title.",
        'The limit of 10 and 50 ms allow ' . CAPACITY . '/s.', '');
    $self->{restarts} = $name eq 'redis';
    my (%status, @rows);
    for (@parts) {
        my ($part, $path, %tenant) = @$_;
        my @records = $self->play($path, %tenant);
        $status{ $_->{status} }++ for @records;
        push @rows, "  $part", map {
            my $own = $_;
            row($own, grep { $_->{url} =~ /tenant=$own$/ } @records);
        } sort keys %tenant;
    }
    $screen->say('', sprintf('  %-24s' . '%10s' x 5, '', 'requests', '200',
        '503', 'other', 'median'), @rows, '');
    return { status => \%status };
}

# Runs one part, and returns the records of its requests.
sub play {
    my ($self, $path, %tenant) = @_;
    my @all = sort { $a->[0] <=> $b->[0] } map {
        my $name = $_;
        map { [$_, $name] } $self->arrivals(@{ $tenant{$name} });
    } sort keys %tenant;
    my @nodes = @{ $self->{nodes} };
    my $load = Dsem::Load->new($self, at => [ map { $_->[0] } @all ],
        keepalive => 1, records => 1, timeout => 60, request => sub {
            my ($i) = @_;
            return "http://$nodes[$i % @nodes]$path?tenant=$all[$i][1]";
        });
    my ($begin, $name) = (now, $path =~ m{(\w+)});
    my $half = $begin + $self->{seconds} / 2;
    until ($load->ready(0.25)) {
        $self->progress($name, now - $begin);
        next if !$self->{restarts} || now < $half;
        $self->{screen}->say('       Redis is restarted');
        $self->{restart}->();
        $self->{restarts} = 0;
    }
    $self->{screen}->end_live;
    delete $self->{shown};
    return @{ $load->wait->{records} };
}

# Seconds at which requests begin, at these rates.
sub arrivals {
    my ($self, @rates) = @_;
    my $all = $self->{seconds};
    return map {
        my ($rate, $from, $to) = @$_;
        map { $from * $all + $_ / $rate } 0 .. $rate * $all * ($to - $from) - 1;
    } @rates;
}

# The fleet as the first node shows it, once a second.
sub progress {
    my ($self, $name, $second) = @_;
    return if int $second <= ($self->{shown} // 0);
    $self->{shown} = int $second;
    my $text = eval { Dsem::Client->new->get(
        "http://$self->{nodes}[0]/dsem/metrics")->body } // '';
    my ($in_use) = $text =~ /^dsem_fleet_permits\{(?=[^}]*semaphore="$name")
        [^}]*state="in_use"[^}]*\}\ (\d+)/mx;
    my ($waiting) = $text
        =~ /^dsem_fleet_waiting_requests\{semaphore="$name"\} (\d+)/m;
    $self->{screen}->live(sprintf '  %3d s  %2s in use, %3s waiting',
        $second, $in_use // '-', $waiting // '-');
}

sub row {
    my ($tenant, @records) = @_;
    my %n;
    $n{ $_->{status} =~ /^(?:200|503)$/ ? $_->{status} : 'other' }++
        for @records;
    my $median = Fleet::Screen::at(0.5, map { $_->{latency} }
        grep { $_->{status} eq '200' } @records);
    return sprintf '  %-24s' . '%10d' x 4 . '%8.2f s', "  $tenant",
        scalar @records, (map { $n{$_} // 0 } qw(200 503 other)),
        $median // 0;
}

1;
