#!/usr/bin/perl

# A session without keys serves tickets that have some, as in a fleet where one
# node is not reloaded yet: a key that comes later is served in turn, it does not
# make up for the time before.

use lib 't/lib';
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;
my $keyed = $scripts->session('keyed')->enter;
my $plain = $scripts->session('plain')->enter;
my ($ticket, %key) = (0);

sub ask {
    my ($key) = @_;
    $keyed->ask('api', ++$ticket, queue => 100, key => $key);
    $key{$ticket} = $key;
}

$plain->ask('api', 1000);
ask($_) for ('a') x 20, ('b') x 20;
$keyed->listen;

# it always has the permit, in a better class, and gives it to the next
my $served = '';
for my $n (1 .. 22) {
    $plain->sync('api', release => 1);
    $served .= join '', map { $key{ (split)[5] } }
        grep { /^grant/ } $keyed->messages;
    $plain->ask('api', 1000 + $n, queue => 100, class => -8);
    ask('c') if $n > 10;
    $keyed->sync('api', release => 1, fair => 1);
}
note $served;
like $served, qr/^(?:ab){5}/, 'in turn';
unlike substr($served, 10), qr/([abc])\1/, 'no key twice in a row';
is $served =~ tr/c//, 4, 'its share';

# what it serves of one class tells nothing about another
my $state = $scripts->state;
sub virtual { return ($state->tags('two', $_[0]))[1] }
$plain->ask('two', 1000);
$keyed->ask('two', $_, queue => 100, key => 'a') for 1, 2;
$keyed->ask('two', $_, queue => 100, key => 'a', class => -1) for 3 .. 5;
my ($before, $last) = (virtual(0), ($scripts->queue('two'))[2]);
my $tag = $state->places('two')->{$last} + 1e13;
cmp_ok $tag, '>', $before, 'tags of a better class';
$plain->sync('two', release => 1);
$keyed->sync('two', release => 1) for 1, 2;
is_deeply [ virtual(-1), virtual(0) ], [ $tag, $before ], 'class by class';
