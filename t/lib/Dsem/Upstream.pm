package Dsem::Upstream;

# The oracle as the test sees it: an upstream in a process of its own, which
# counts its concurrent requests. The module is measured against its counts.
#
# Called by: Dsem::Test.

use strict;
use warnings;

use Carp qw(croak);
use List::Util qw(max min sum0);
use File::Path qw(make_path);
use IO::Socket::INET;
use IO::Socket::UNIX;

use Dsem::Control;
use Dsem::Process;
use Dsem::Redis;
use Dsem::Wait qw(took wait_for);

sub new {
    my ($class, $t, $name, %opt) = @_;
    my $dir = $t->dir . "/$name";
    make_path($dir);
    my $self = bless {
        name => $name, ports => 1, service => 0, host => '127.0.0.1', %opt,
    }, $class;
    my @listen = map { $self->_listen($self->{port} // $t->free_port) }
        1 .. $self->{ports};
    push @listen, $self->_listen_unix("$dir/http") if $self->{unix};
    my $control = Dsem::Control::listen_on("$dir/control");
    $self->{process} = Dsem::Process->spawn(
        name => $name, log => "$dir/log", keep => [@listen, $control],
        code => sub {
            # not loaded by the test, because it runs an event loop
            require Dsem::Oracle;
            Dsem::Oracle::run(\@listen, $control, %opt);
        });
    $self->{control} = Dsem::Control->new("$dir/control");
    return $self;
}

sub _listen {
    my ($self, $port) = @_;
    my ($class, $host) = ('IO::Socket::INET', $self->{host});
    if ($host =~ /:/) {
        # "::" has the addresses of IPv4, too
        require IO::Socket::IP;
        ($class, $host) = ('IO::Socket::IP', "[$host]");
    }
    push @{ $self->{address} }, "$host:$port";
    return $class->new(V6Only => 0,
        LocalAddr => $self->{host}, LocalPort => $port, Proto => 'tcp',
        Listen => 4096, ReuseAddr => 1) // croak "listen on $port: $!";
}

# unix => 1: on a socket, too, that a network namespace does not hide
sub _listen_unix {
    my ($self, $path) = @_;
    $self->{socket} = $path;
    return IO::Socket::UNIX->new(Local => $path, Listen => 128)
        // croak "$path: $!";
}

sub name { $_[0]{name} }
sub socket { $_[0]{socket} }
sub address { $_[0]{address}[($_[1] // 1) - 1] }
sub addresses { @{ $_[0]{address} } }
sub pid { $_[0]{process}->pid }
sub process { $_[0]{process} }

sub _ask {
    my ($self, @request) = @_;
    return $self->{control}->call(@request);
}

# in units of weight; of one value of the header X-Sem, or of all requests
sub peak { $_[0]->_ask('peak', $_[1] // '') }
sub now { $_[0]->_ask('now', $_[1] // '') }
sub started { $_[0]->_ask('count', 'started') }
sub served { $_[0]->_ask('count', 'answered') }
sub aborted { $_[0]->_ask('count', 'closed') }
sub connections { $_[0]->_ask('count', 'accepted') }
sub reset { $_[0]->_ask('reset') }
sub log { @{ $_[0]->_ask('log') } }
sub order { map { $_->{nonce} } $_[0]->log }

# Ends hanging requests: all, the oldest n, those with this nonce.
sub release_all { $_[0]->_release('release', 1e9) }
sub release { $_[0]->_release('release', $_[1] // 1) }
sub release_nonce { $_[0]->_release('release_nonce', $_[1]) }

sub _release {
    my ($self, @request) = @_;
    return Dsem::Redis::stall('release', sub { $self->_ask(@request) });
}

# How many of these hanging requests are here when each is, or has been refused;
# they end then.
sub admitted {
    my ($self, @requests) = @_;
    wait_for { $self->now + (grep { $_->done } @requests) == @requests } 15,
        'each admitted or refused';
    my $now = $self->now;
    $self->release_all;
    $_->wait for @requests;
    wait_for { $self->now == 0 } 15, 'none at the backend';
    return $now;
}

# As if it were firewalled for the requests with this value of X-Node: their
# connections are reset. With 0: no more.
sub refuse { $_[0]->_ask('refuse', $_[1], $_[2] // 1) }

# Mean measured service time of the answered requests, in seconds.
sub mean {
    my ($self) = @_;
    my @took = map { $_->{end} - $_->{start} }
        grep { $_->{how} eq 'answered' } $self->log;
    return @took ? sum0(@took) / @took : 0;
}

# [time, weight running from then on], in order of time.
sub levels {
    my ($self, $sem) = @_;
    my %change;
    for my $record ($self->log) {
        next if defined $sem && $record->{sem} ne $sem;
        $change{ $record->{start} } += $record->{weight};
        $change{ $record->{end} } -= $record->{weight} if $record->{end};
    }
    my $running = 0;
    return map { [$_, $running += $change{$_}] }
        sort { $a <=> $b } keys %change;
}

# The used part of limit * time between $from and $to.
sub goodput {
    my ($self, $limit, $from, $to, $sem) = @_;
    return used([ $self->levels($sem) ], $limit, $from, $to);
}

sub used {
    my ($levels, $limit, $from, $to) = @_;
    my ($used, $at, $running) = (0, $from, 0);
    for (@$levels, [$to, 0]) {
        my ($time, $level) = @$_;
        last if $time > $to;
        if ($time > $from) {
            $used += $running * ($time - $at);
            $at = $time;
        }
        $running = $level;
    }
    return $used / ($limit * ($to - $from));
}

# Goodput of the worst second of a span, in steps of a tenth of a second: the
# used part of the time that the machine gave.
sub worst {
    my ($self, $limit, $from, $to, $sem) = @_;
    my @levels = $self->levels($sem);
    return min map {
        my $at = $from + $_ / 10;
        min 1, used(\@levels, $limit, $at, $at + 1)
            / max(0.1, took($at, $at + 1));
    } 0 .. 10 * ($to - $from - 1);
}

1;
