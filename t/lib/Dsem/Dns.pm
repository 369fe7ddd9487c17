package Dsem::Dns;

# A name server on UDP, as the test sees it: records that the test changes,
# silence on demand. It runs in a process of its own.
#
# Called by: Dsem::Test.

use strict;
use warnings;

use Carp qw(croak);
use File::Path qw(make_path);
use IO::Socket::INET;

use Dsem::Control;
use Dsem::Process;

# %record: name => [IPv4 and IPv6 addresses], or of a service [[priority, weight,
# port, name], ...]; other names do not exist.
sub new {
    my ($class, $t, $name, %record) = @_;
    my $dir = $t->dir . "/$name";
    make_path($dir);
    my $port = $t->free_port;
    my $sock = IO::Socket::INET->new(LocalAddr => '127.0.0.1',
        LocalPort => $port, Proto => 'udp') or croak "bind to $port: $!";
    my $control = Dsem::Control::listen_on("$dir/control");
    my $process = Dsem::Process->spawn(
        name => $name, log => "$dir/log", keep => [$sock, $control],
        code => sub { Dsem::Dns::Server::run($sock, $control, %record) });
    return bless {
        address => "127.0.0.1:$port", process => $process,
        control => Dsem::Control->new("$dir/control"),
    }, $class;
}

sub address { $_[0]{address} }

# Replaces the records of a name; without any the name exists no more.
sub set {
    my ($self, $name, @records) = @_;
    return $self->{control}->call('set', $name, @records);
}

# Answers nothing; 0: answers again.
sub silent { $_[0]{control}->call('silent', $_[1] // 1) }

# Questions so far, answered or not: two for each time that a name is asked.
sub questions { $_[0]{control}->call('questions') }

package Dsem::Dns::Server;

use Socket qw(AF_INET AF_INET6 inet_pton);

use constant { A => 1, AAAA => 28, SRV => 33, IN => 1, NXDOMAIN => 3 };

sub run {
    my ($sock, $control, %record) = @_;
    # not loaded by the test, because it runs an event loop
    require EV;
    my $self = bless {
        record => \%record, questions => 0, silent => 0,
    }, __PACKAGE__;
    my $serving = Dsem::Control::serve($control, $self);
    my $reading = EV::io($sock, EV::READ(), sub {
        my $from = $sock->recv(my $query, 512) // return;
        $self->{questions}++;
        $sock->send($self->reply($query), 0, $from) unless $self->{silent};
    });
    EV::run();
}

sub do_set {
    my ($self, $name, @records) = @_;
    $self->{record}{$name} = \@records;
    delete $self->{record}{$name} unless @records;
    return 1;
}

sub do_silent { $_[0]{silent} = $_[1] }
sub do_questions { $_[0]{questions} }

# The question again, and the records of its type with a TTL of 0.
sub reply {
    my ($self, $query) = @_;
    my $id = unpack 'n', $query;
    my ($name, $at) = ('', 12);
    while (my $len = ord substr $query, $at, 1) {
        $name .= '.' if length $name;
        $name .= substr $query, $at + 1, $len;
        $at += $len + 1;
    }
    my $type = unpack 'n', substr $query, $at + 1, 2;
    my $records = $self->{record}{ lc $name };
    my @data = map { data($type, $_) // () } @{ $records // [] };
    # a reply, recursion desired and available; the name is a pointer
    return pack('n6', $id, 0x8180 | ($records ? 0 : NXDOMAIN), 1,
            scalar @data, 0, 0)
        . substr($query, 12, $at + 5 - 12)
        . join '', map { pack 'n3 N n/a*', 0xc00c, $type, IN, 0, $_ } @data;
}

# The record in the form that has this type; undef: it is of another one.
sub data {
    my ($type, $record) = @_;
    if (ref $record) {
        my ($priority, $weight, $port, $name) = @$record;
        return $type == SRV ? pack 'n3 (C/a*)* x', $priority, $weight, $port,
            split /\./, $name : undef;
    }
    return inet_pton(AF_INET6, $record) if $type == AAAA && $record =~ /:/;
    return inet_pton(AF_INET, $record) if $type == A && $record !~ /:/;
    return;
}

1;
