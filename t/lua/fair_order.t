#!/usr/bin/perl

# Tickets with keys share the permits: each key is served in turn, FIFO inside a
# key, a new key before the backlog of another one.

use lib 't/lib';
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;
my $one = $scripts->session('one')->enter;
my $two = $scripts->session('two')->enter;
my $ticket = 0;

sub ask {
    my ($session, $key, %arg) = @_;
    my $verdict = $session->ask('api', ++$ticket, queue => 100, key => $key,
        %arg);
    $scripts->{key}{$ticket} = $key;
    return $verdict;
}

# The keys in the order in which they are served.
sub served {
    my ($most) = @_;
    my @served;
    while (@served < $most) {
        my @next = @{ $one->sync('api', release => 1, fair => 1)->{granted} };
        die 'nothing granted' unless @next == 1;
        push @served, @next;
    }
    return @served;
}

sub keys_of { return join '', map { $scripts->{key}{$_} } @_ }

is ask($one, 'a'), 'granted', 'free permit';
is $scripts->redis->cmd('EXISTS', $scripts->state->fair_key('api')), 0,
    'nothing remembered while nothing waits';

ask($one, 'a') for 1 .. 4;
ask($one, 'b') for 1 .. 2;
ask($one, 'c');
is $one->{asked}{asked}{$ticket}{position}, 3, 'position';
my @order = served(3);
is keys_of(@order), 'abc', 'one of each key';
ask($one, 'd');
push @order, served(5);
is keys_of(@order), 'abcdabaa', 'new key before the backlog';
for my $key (qw/a b/) {
    my @of = grep { $scripts->{key}{$_} eq $key } @order;
    is_deeply \@of, [ sort { $a <=> $b } @of ], "FIFO of $key";
}
is $scripts->redis->cmd('EXISTS', $scripts->state->fair_key('api')), 0,
    'nothing remembered when nothing waits any more';
$one->sync('api', release => 1, fair => 1);
is $scripts->state->exists('api'), 0, 'nothing left';

# shares 1:2:4 are costs 4:2:1
my %cost = (a => 4000, b => 2000, c => 1000);
ask($one, 'a');
for my $n (1 .. 30) {
    ask($one, $_, cost => $cost{$_}) for qw/a b c/;
}
my %got;
served(7);
$got{ $scripts->{key}{$_} }++ for served(35);
is_deeply \%got, { a => 5, b => 10, c => 20 }, 'shares 1:2:4';
$one->bye;

# classes are outside
$one = $scripts->session('one')->enter;
ask($one, 'a');
ask($one, 'a', class => 1) for 1 .. 2;
ask($one, 'b', class => 1);
ask($one, 'a') for 1 .. 3;
ask($one, 'b');
ask($one, 'c', class => -1);
is keys_of(served(8)), 'cabaaaba', 'classes first';
$one->bye;

# the same through two sessions, with messages
$one = $scripts->session('one')->enter;
ask($one, 'a');
ask($one, 'a') for 1 .. 3;
$two->listen;
ask($two, 'b');
$one->sync('api', release => 1, fair => 1);
$one->sync('api', release => 1, fair => 1);
my ($message) = $two->messages;
like $message, qr/^grant api 1 1 1 $ticket$/, 'grant of a ticket with a key';
