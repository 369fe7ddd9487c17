#!/usr/bin/perl

# A key whose requests become slow gets the permits that are free, and keeps them
# until these requests end. Keys within 85 % of their shares lose no request if
# the queue is as long as what arrives meanwhile. In a shorter one they do, but
# only when no request of the slow key waits any more.

package Watched;

use FindBin;
use lib "$FindBin::Bin/../lib", "$FindBin::Bin/../model";
use parent 'Model::FairPlay';

# Notes the requests of the slow key that wait when one of another is refused.
sub refused {
    my ($self, $worker, $number, $how) = @_;
    my $ticket = $worker->{tickets}{$number};
    if ($ticket && $ticket->{name} ne 'slow') {
        push @{ $self->{beside} }, scalar grep { $_->{name} eq 'slow'
            && !defined $_->{start} } map { values %{ $_->{tickets} } }
            @{ $self->{worker} };
    }
    return $self->SUPER::refused($worker, $number, $how);
}

package main;

use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;

# 10 permits, 120 requests of 50 ms a second, a burst of 60 that take 900 ms;
# the numbers of requests of the slow key at each refusal of another
sub beside {
    my ($queue) = @_;
    my $play = Watched->new($scripts, queue => $queue, seed => 4);
    $play->open(key => "tenant$_", ms => 50, rate => 40, to => 4500) for 1 .. 3;
    $play->open(key => 'slow', ms => 2, rate => 40, to => 1500);
    $play->burst(key => 'slow', ms => 900, requests => 60, from => 1500);
    $play->run(4500);
    return @{ $play->{beside} // [] };
}

is_deeply [ beside(150) ], [], 'a long queue: none refused';
my @beside = beside(60);
cmp_ok scalar @beside, '>', 0, 'a shorter one: some refused';
is scalar(grep { $_ } @beside), 0, 'no request of the slow key waited then';
