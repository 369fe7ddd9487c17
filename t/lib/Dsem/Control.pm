package Dsem::Control;

# Remote calls from the test to its helper processes (oracle, proxy): one JSON
# array per line over a unix socket, [method, arguments...]; replies in order,
# [result] or [null, error]. The test's side blocks.
#
# Called by: Dsem::Upstream and Dsem::Proxy (new, call), Dsem::Oracle and
# Dsem::ProxyServer (serve, in the child process, which runs EV).

use strict;
use warnings;

use Carp qw(croak);
use Cpanel::JSON::XS ();
use IO::Socket::UNIX;

my $json = Cpanel::JSON::XS->new->utf8->allow_nonref;

# In the test, before the fork, so that new() need not wait for the socket.
sub listen_on {
    my ($path) = @_;
    return IO::Socket::UNIX->new(Local => $path, Listen => 16)
        || croak "$path: $!";
}

sub new {
    my ($class, $path) = @_;
    my $sock = IO::Socket::UNIX->new(Peer => $path) || croak "$path: $!";
    return bless { sock => $sock }, $class;
}

sub call {
    my ($self, @request) = @_;
    my $sock = $self->{sock};
    print $sock $json->encode(\@request), "\n";
    $sock->flush;
    my $line = <$sock> // croak "$request[0]: the helper process is gone";
    my ($result, $error) = @{ $json->decode($line) };
    croak "$request[0]: $error" if defined $error;
    return $result;
}

# In the helper: executes methods of $object whose names begin with "do_".
sub serve {
    my ($listen, $object) = @_;
    $listen->blocking(0);
    my %open;
    return EV::io($listen, EV::READ(), sub {
        my $sock = $listen->accept or return;
        my $buffer = '';
        $open{$sock} = EV::io($sock, EV::READ(), sub {
            my $n = sysread $sock, $buffer, 65536, length $buffer;
            return delete $open{$sock} unless $n;
            while ($buffer =~ s/^(.*)\n//) {
                _answer($sock, $object, $1);
            }
        });
    });
}

sub _answer {
    my ($sock, $object, $line) = @_;
    my ($method, @args) = @{ $json->decode($line) };
    my $result = eval { $object->can("do_$method")->($object, @args) };
    my $reply = $json->encode($@ ? [undef, "$@"] : [$result]) . "\n";
    $sock->blocking(1);
    while (length $reply) {
        my $n = syswrite $sock, $reply or last;
        substr $reply, 0, $n, '';
    }
}

1;
