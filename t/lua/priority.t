#!/usr/bin/perl

# A lower class is granted first; inside a class, first come, first served.

use lib 't/lib';
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;
my $one = $scripts->session('one')->enter;

$one->ask('api', 1);
my $ticket = 1;
for my $class (0, 7, -8, 3, 0, -8, 7, -1) {
    $one->ask('api', ++$ticket, class => $class);
}
is $one->{asked}{asked}{$ticket}{position}, 3, 'position among classes';

my @order;
push @order, @{ $one->sync('api', release => 1)->{granted} } for 1 .. 8;
is_deeply \@order, [ 4, 7, 9, 2, 6, 5, 3, 8 ], 'classes, then arrival';

# of several asks in one call the best class is granted, not the first ask
$one->ask('web', 1, limit => 2, weight => 1);
$one->ask('web', 2, limit => 2, weight => 2);
my $reply = $one->sync('web', limit => 2,
    ask => [ [ 3, 1, 1 ], [ 4, 1, -1 ] ]);
is $reply->{asked}{4}{verdict}, 'granted', 'better class is the head';
is $reply->{asked}{3}{verdict}, 'queued', 'worse class waits';
is_deeply $reply->{account}, [ 2, 2 ], 'account counts all';
