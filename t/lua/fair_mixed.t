#!/usr/bin/perl

# Weights, classes, and tickets without a key in one queue with those that have
# one.

use lib 't/lib';
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;
my $state = $scripts->state;
my $one = $scripts->session('one')->enter;
my $two = $scripts->session('two')->enter;
my @all = (limit => 4, queue => 100);

sub queue { return join ' ', map { (split)[2] } $scripts->queue($_[0]) }

sub served {
    my $reply = $one->sync('api', limit => 4, fair => 1, @_);
    return "@{ $reply->{granted} }";
}

# no lighter ticket behind overtakes
$one->ask('api', 1, @all, weight => 3, key => 'x');
$one->ask('api', $_, @all, weight => 2, key => 'a') for 2, 3;
is queue('api'), '2 3', 'two heavy ones wait, one permit is free';
is $one->ask('api', 4, @all, key => 'a'), 'queued', 'same key: behind';
my ($before) = $state->tags('api');
is $two->ask('api', 5, @all, key => 'b'), 'queued', 'another key: behind';
is queue('api'), '2 5 3 4', 'places';
is served(release => 1), '2', 'head served';
$two->ask('api', 6, @all, key => 'b');
is $two->ask('api', 7, @all, class => -1, key => 'b'), 'queued',
    'better class waits where nothing is free';
is served(release => 2), '', 'other sessions served';
is queue('api'), '3 6 4', 'better class and first one';
is served(release => 2), '3', 'heavy one';
$_->bye for $one, $two;

# a ticket before the heavy head
($one, $two) = map { $scripts->session($_)->enter } qw/one two/;
$one->ask('api', 1, @all, weight => 3, key => 'x');
$one->ask('api', 2, @all, weight => 2, cost => 1000, key => 'a');
$one->ask('api', 3, @all, weight => 2, cost => 9000, key => 'a');
$one->sync('api', limit => 4, cancel => [ [ 2, 2, 1000, 'a' ] ]);
is queue('api'), '3', 'a heavy one waits behind its own key';
is $one->ask('api', 4, @all, cost => 1000, key => 'b'), 'granted',
    'another key passes it';
my ($tags, $virtual) = $state->tags('api');
is $tags->{b} - $virtual, 2000, 'and pays';
is $two->ask('api', 5, @all, key => 'b'), 'queued', 'nothing is free';
$one->sync('api', limit => 4, release => 1, fair => 1);
is queue('api'), '3 5', 'heavy one not overtaken';
is $two->ask('api', 6, @all, key => 'b'), 'queued', 'one that paid waits';
is queue('api'), '3 5 6', 'behind';
$_->bye for $one, $two;

# without a key: behind all of its class that wait then
($one, $two) = map { $scripts->session($_)->enter } qw/one two/;
$one->ask('api', 1, limit => 1, key => 'x');
$one->ask('api', $_, limit => 1, queue => 100, key => 'a') for 2 .. 4;
$two->ask('api', 5, limit => 1, queue => 100);
$two->ask('api', 6, limit => 1, queue => 100);
is queue('api'), '2 3 4 5 6', 'no key: behind';
$one->ask('api', 7, limit => 1, queue => 100, key => 'b');
$one->ask('api', 8, limit => 1, queue => 100, key => 'a');
is queue('api'), '2 7 3 4 5 6 8', 'key: by its tag';
my @served;
my $session = $one;
while (my ($next) = $scripts->queue('api')) {
    push @served, (split ' ', $next)[2];
    # by turns a command of a node without fair=, and one with it
    $session->sync('api', limit => 1, release => 1, fair => @served % 2);
    $session = $served[-1] =~ /[56]/ ? $two : $one;
}
is "@served", '2 7 3 4 5 6 8', 'served in order by commands of both kinds';
is $two->ask('api', 9, limit => 1, queue => 100), 'queued',
    'no key waits alone';
is $one->ask('api', 10, limit => 1, queue => 100, key => 'a'), 'queued',
    'tags begin behind it';
is queue('api'), '9 10', 'behind';
is $scripts->redis->cmd('ZCARD', $state->fair_key('api')), 3,
    'tags of an earlier queue are gone';

# a plain command empties the queue: what it leaves behind does not count
$session->sync('api', limit => 1, release => 1);
$two->sync('api', limit => 1, release => 1);
is queue('api'), '', 'queue empty';
$one->ask('api', 11, limit => 1, queue => 100, key => 'b');
my ($left) = $state->tags('api');
is_deeply [ keys %$left ], ['b'], 'tags begin anew';

# a queue that was never empty for weeks: tags begin at the clock
$one->sync('api', limit => 1, cancel => [ [ 11, 1, 1000, 'b' ] ]);
$state->set_figure('api', seq => 9e12);
my $place = do {
    $one->ask('api', 12, limit => 1, queue => 9, key => 'b');
    $one->{asked}{asked}{12}{place};
};
cmp_ok $place, '<', 1e12, 'low tags again';

# the greatest cost of all, and a ticket without key behind it: on the shortcut,
# and on the rest, which an order leads to
for my $first (20, 40) {
    $scripts->order('api', 1) if $first == 40;
    $one->ask('api', $first + $_, limit => 1, queue => 100, key => "c$first",
        cost => 1e10) for 1 .. $first / 4;
    my @places = map {
        $state->places('api')->{ $one->name . " 1 $_ 1 c$first" }
    } $first + 1 .. $first * 5 / 4;
    is $places[-1] - $places[-2], 1e9, "$first: greatest increment";
    $two->ask('api', $first + 19, limit => 1, queue => 100);
    like queue('api'), qr/ ${\($first + 19)}$/, "$first: no key: behind";
}
