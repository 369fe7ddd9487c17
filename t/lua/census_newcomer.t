#!/usr/bin/perl

# A new session is told to some of the others at once: a loss of state right
# afterwards waits for it, although none of them has sent a beat since.

use lib 't/lib';
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;

my @all = map { $scripts->session("n$_") } 1 .. 7;
$_->listen for @all;
my @told = map { $_->enter; [ map { [ $_->all_messages ] } @all ] } @all;

is_deeply $told[0], [ ([]) x 7 ], 'first session: nothing to tell';
is_deeply $told[1][0], ['sessions 2'], 'second session: first one told';
is scalar(grep { "@$_" eq 'sessions 7' } @{ $told[6] }), 4,
    'seventh session: four told';
is_deeply $told[6][6], [], 'not itself';

$all[0]->hello;
is_deeply [ map { $_->all_messages } @all ], [], 'known session: nothing new';
