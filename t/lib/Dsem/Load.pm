package Dsem::Load;

# Load in a process of its own, so that the test can act meanwhile; the
# result comes back through a pipe when the last request has ended.
#
# Called by: Dsem::Test (load, load_start).

use strict;
use warnings;

use Carp qw(croak);
use Cpanel::JSON::XS ();
use IO::Handle;

use Dsem::Process;

my $n = 0;
my $json = Cpanel::JSON::XS->new->latin1;

sub new {
    my ($class, $t, %opt) = @_;
    croak 'load: neither requests nor seconds'
        unless $opt{requests} || $opt{seconds};
    croak 'load: neither urls nor request' unless $opt{urls} || $opt{request};
    my $name = 'load' . ++$n;
    pipe my $from, my $to or croak "pipe: $!";
    my $process = Dsem::Process->spawn(
        name => $name, log => $t->dir . "/$name.log", keep => [$to],
        code => sub {
            require Dsem::LoadGenerator;
            my $result = Dsem::LoadGenerator::run(%opt, name => "$name-$$");
            print $to $json->encode($result);
            $to->flush;
        });
    close $to;
    return bless { from => $from, process => $process, name => $name },
        $class;
}

sub pid { $_[0]{process}->pid }
sub running { $_[0]{process}->alive }

# No more new requests; wait tells how the ones in flight ended.
sub stop {
    my ($self) = @_;
    $self->{process}->signal('TERM');
    return $self;
}

sub wait {
    my ($self) = @_;
    return $self->{result} if $self->{result};
    my $from = $self->{from};
    local $/;
    my $text = <$from>;
    croak "$self->{name} died, see its log" unless length($text // '');
    $self->{process}->wait_exit(5);
    return $self->{result} = $json->decode($text);
}

1;
