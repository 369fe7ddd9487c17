#!/usr/bin/perl

# While permits are recalled the queue is longer by as many requests as they
# may suffice for, not by as many as they are.

use lib 't/lib';
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;
my ($one, $two, $asks) =
    map { $scripts->session($_)->enter } qw/one two asks/;
my %arg = (limit => 40_000, queue => 1);

# tickets that are queued before one is refused
sub queued {
    my ($name, $weight, $most) = @_;
    for my $n (1 .. $most) {
        return $n - 1 if $asks->ask($name, $n, %arg, weight => $weight)
            eq 'refused';
    }
    return "more than $most";
}

for my $case ([4000, 11], [15_000, 4], [40_000, 2]) {
    my ($weight, $queued) = @$case;
    my $name = "w$weight";
    $one->sync($name, %arg, keep => 1, ask => [ [ 1, 30_000 ] ]);
    $two->sync($name, %arg, keep => 1, ask => [ [ 1, 10_000 ] ]);
    is queued($name, $weight, 20), $queued, "weight $weight: $queued queued";
}

# also where permits of others are idle beside free ones
$one->sync('part', %arg, keep => 1, ask => [ [ 1, 2000 ] ]);
is $asks->ask('part', 1, %arg, queue => 0, weight => 39_000), 'queued',
    'idle and free ones suffice together';

# a full queue of light ones: a heavy one with a key drops the last of them
$one->sync('fair', %arg, keep => 1, ask => [ [ 1, 40_000 ] ]);
$asks->sync('fair', %arg, fair => 1, ask => [ map {
    [ $_, 1, 0, 1, 1_000_000_000, 'light' ] } 1 .. 12 ]);
is $asks->ask('fair', 13, %arg, weight => 20_000, key => 'heavy'), 'queued',
    'a turn of another key';
is $scripts->state->waiting('fair'), 12, 'in the place of one';

$scripts->done;
