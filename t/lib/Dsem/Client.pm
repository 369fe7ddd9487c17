package Dsem::Client;

# Single requests of a test. They stay in flight while the test does other
# things: the kernel buffers responses until the test reads them. No event
# loop; use Dsem::Load for many concurrent clients.
#
# Called by: Dsem::Node and tests.

use strict;
use warnings;

use Dsem::Client::Raw;
use Dsem::Client::Request;

my $nonce = 0;

sub new { bless {}, shift }

sub raw {
    my ($self, $host, $port) = @_;
    return Dsem::Client::Raw->new($host, $port);
}

sub start {
    my ($self, $url, %header) = @_;
    my %option = map { $_ => delete $header{$_} } grep { /^-/ } keys %header;
    my ($host, $port, $path) = $url =~ m{^http://([^:/]+):(\d+)(/.*)?$}s
        or die "no URL: $url";
    $header{'X-Nonce'} //= join '-', 't', $$, ++$nonce;
    my $raw = $self->raw($host, $port);
    return Dsem::Client::Request->new($raw, $path // '/', \%header,
        \%option);
}

sub get {
    my ($self, $url, %header) = @_;
    return $self->start($url, %header)->wait;
}

1;
