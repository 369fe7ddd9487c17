package Dsem::Workers;

# Connections to each worker of a node: the test says by pid which of them has a
# request. Both workers have some if the server has "listen ... reuseport"; it
# needs
#   add_header X-Dsem $dsem_status always;
#   location /pid { return 200 $pid,; }
#
#   my $to = Dsem::Workers->new($node);
#   my ($one, $two) = $to->pids;
#   $to->send($two, 0, '/a?hang=1');    # by the first connection
#   $to->answered($two, 0);             # waits for the head of the answer
#   like $to->got($one, '/a'), qr/PASSED/;
#   is $to->admitted($one, '/a', $up), 2;
#
# Called by: tests of what a worker knows that its sibling has seen.

use strict;
use warnings;

use Dsem::Wait qw(wait_for);

# to each worker
use constant CONNECTIONS => 5;

sub new {
    my ($class, $node) = @_;
    my $self = bless { node => $node, pids => [ $node->workers ] }, $class;
    my $missing = CONNECTIONS * @{ $self->{pids} };
    for (1 .. 200) {
        my $raw = request($node->raw, '/pid');
        my ($pid) = $raw->read_until(qr/\d+,$/) =~ /(\d+),$/;
        my $to = $self->{to}{$pid} //= [];
        next if @$to == CONNECTIONS;
        push @$to, $raw;
        return $self if --$missing == 0;
    }
    die "too few connections to each worker\n";
}

sub pids { @{ $_[0]{pids} } }

sub request {
    my ($raw, $path) = @_;
    return $raw->send("GET $path HTTP/1.1\r\nHost: a\r\n\r\n");
}

sub send {
    my ($self, $pid, $n, $path) = @_;
    return request($self->{to}{$pid}[$n], $path);
}

sub answered {
    my ($self, $pid, $n) = @_;
    return $self->{to}{$pid}[$n]->read_until(qr/X-Dsem: \w+\r\n\r\n/);
}

# The head of the answer, by the last connection.
sub got {
    my ($self, $pid, $path) = @_;
    $self->send($pid, CONNECTIONS - 1, $path);
    return $self->answered($pid, CONNECTIONS - 1);
}

# How many of five requests are; the others are refused with 503.
sub admitted {
    my ($self, $pid, $path, $up) = @_;
    my $node = $self->{node};
    $node->clear_logs;
    $self->send($pid, $_, "$path&hang=1") for 0 .. CONNECTIONS - 1;
    wait_for {
        $up->now + (grep { $_->{status} == 503 } $node->access_log)
            == CONNECTIONS;
    } 15, 'each admitted or refused';
    my $now = $up->now;
    $up->release_all;
    $self->answered($pid, $_) for 0 .. CONNECTIONS - 1;
    wait_for { $up->now == 0 } 15, 'none at the backend';
    return $now;
}

1;
