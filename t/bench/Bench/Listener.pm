package Bench::Listener;

# A process that subscribes to the channels of sessions, on 100 connections: a
# message without a subscriber would cost Redis less.
#
# Called by: scale.pl.

use strict;
use warnings;

use Carp qw(croak);
use IO::Select;
use IO::Socket::UNIX;

use Bench::Wire;
use Dsem::Process;
use Dsem::Wait qw(wait_for);

use constant CONNECTIONS => 100;

sub start {
    my ($stage, @channels) = @_;
    my $redis = $stage->redis;
    my @socks = map {
        IO::Socket::UNIX->new(Peer => $redis->unix) // croak "subscribe: $!"
    } 1 .. CONNECTIONS;
    Dsem::Process->spawn(name => 'listener', keep => \@socks,
        log => $stage->dir . '/listener.log', code => sub {
            my $all = IO::Select->new(@socks);
            while (my @ready = $all->can_read) {
                sysread $_, my $message, 1 << 16 or exit for @ready;
            }
        });
    for my $i (0 .. $#channels) {
        syswrite $socks[ $i % @socks ],
            Bench::Wire::command('SUBSCRIBE', $channels[$i]);
    }
    wait_for {
        my %subscribers = @{ $redis->cmd(qw(PUBSUB NUMSUB), @channels) };
        @channels == grep { $_ } values %subscribers;
    } 10, 'the listener';
}

1;
