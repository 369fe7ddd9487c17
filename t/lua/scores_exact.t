#!/usr/bin/perl

# Places are exact for every class and large sequence numbers, in Redis, in the
# reply and in a later declare.

use lib 't/lib';
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;
my $one = $scripts->session('one')->enter;
my $redis = $scripts->redis;
my $state = $scripts->state;
my $seq = 9999999999990;

$one->ask('api', 1);
$state->set_figure('api', seq => $seq);

my ($ticket, %place) = (1);
for my $class (7, 0, -1, -8, 7, 0, -1, -8) {
    $one->ask('api', ++$ticket, class => $class);
    $seq++;
    $place{$ticket} = $class * 10_000_000_000_000 + $seq;
    is $one->{asked}{asked}{$ticket}{place}, $place{$ticket},
        "class $class: place reported";
    is $state->places('api')->{ join ' ', $one->name, 1, $ticket, 1 },
        $place{$ticket}, "class $class: place kept";
}
is $state->figures('api')->{seq}, $seq, 'sequence exact';
is_deeply [ map { (split)[2] } $scripts->queue('api') ],
    [ 5, 9, 4, 8, 3, 7, 2, 6 ], 'classes in order';

$redis->cmd('DEL', $state->semaphore_keys('api'));
$one->hello;
my @tickets = map { [ $_, 1, $place{$_} ] } sort keys %place;
is_deeply $one->declare('api', tickets => \@tickets)->{places},
    [ map { $_->[2] } @tickets ], 'places as declared';
is $state->figures('api')->{seq}, $seq, 'sequence continues';
is $state->places('api')->{ join ' ', $one->name, 2, $_, 1 }, $place{$_},
    "ticket $_ exact" for sort keys %place;

# the largest weights, tickets and epochs
my $big = 9007199254740992;
my $two = $scripts->session('two')->enter(epoch => $big - 1);
my $large = $big - 1;
is $two->ask('big', $large, limit => $big, weight => $large), 'granted',
    'large numbers';
is_deeply $two->{asked}{account}, [ $large, 0 ], 'large weight exact';
is_deeply $state->account('big', $two->name),
    { epoch => $large, held => $large, waiting => 0 }, 'weight as stored';
is $two->sync('big', release => $large)->{in_use}, 0, 'weight released whole';
