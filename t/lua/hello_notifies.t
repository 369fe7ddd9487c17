#!/usr/bin/perl

# A new session is announced to four others at most, whatever their leases are.

use lib 't/lib';
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;

# how many of the others are told of a session with this lease
sub told {
    my ($lease, @others) = @_;
    $_->all_messages for @others;
    my $new = $scripts->session('new');
    $new->{lease} = $lease;
    $new->enter;
    my @got = map { $_->all_messages } @others;
    $new->bye;
    return join ' ', scalar @got, grep { $_ ne 'sessions 7' } @got;
}

my @others = map { $scripts->session("n$_")->listen } 1 .. 6;
$_->{lease} = 60000 for @others;
$_->enter for @others;
is told(60000, @others), 4, 'the same lease';
is told(5000, @others), 4, 'a shorter lease';
is told(90000, @others), 4, 'a longer lease';
