#!/usr/bin/perl

# Many sessions hold permits, all of them in use but for one. Those that are
# recalled have none idle, and each recalls two others: the idle one is found
# after few round trips. Where there are few sessions they are recalled one after
# the other.

use lib 't/lib';
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;

# Sessions hold two permits each, the last one a single one, which is idle. By
# round, the number of those that are recalled until that one is.
sub rounds {
    my ($name, $n) = @_;
    my @holders = map { $scripts->session("$name$_")->enter->listen } 1 .. $n;
    my $asks = $scripts->session("$name-asks")->enter;
    my %arg = (limit => 2 * $n - 1);
    $_->sync($name, %arg, keep => 1, ask => [ [1], $_ == $holders[-1] ? ()
        : [2] ]) for @holders;
    is $asks->ask($name, 1, %arg, queue => 9), 'queued', "$name: a ticket waits";
    my @rounds;
    while (@rounds <= $n) {
        my @recalled = grep { $_->messages } @holders or last;
        push @rounds, scalar @recalled;
        last if grep { $_ == $holders[-1] } @recalled;
        # none is idle
        $_->sync($name, %arg) for @recalled;
    }
    $holders[-1]->sync($name, %arg, release => 1);
    is $scripts->state->waiting($name), 0, "$name: it is served";
    return join ' ', @rounds;
}

is rounds(few => 5), '1 1 1 1 1', 'few: one after the other';
is rounds(many => 40), '1 2 4 8 16 9', 'many: twice as many in each round';

# one that has given back what was idle recalls for the weight that is missing
my @idle = map { $scripts->session("idle$_")->enter->listen } 1 .. 20;
my %arg = (limit => 40);
$_->sync('weight', %arg, keep => 1, ask => [ [1], [2] ]) for @idle;
my $heavy = $scripts->session('heavy')->enter;
is $heavy->ask('weight', 1, %arg, queue => 9, weight => 2), 'queued',
    'weight 2 waits';
my ($first) = grep { $_->messages } @idle;
$first->sync('weight', %arg, release => 1);
is scalar(grep { $_->messages } @idle), 1, 'one more is recalled';
# a sync that crossed the message is no reply to it
my ($next) = grep {
    ($scripts->state->account('weight', $_->name)->{reuse} // 0) == 2
} @idle;
$next->sync('weight', %arg, keep => 1);
is scalar(grep { $_->messages } @idle), 1, 'one, while it keeps permits';

$scripts->done;
