#!/usr/bin/perl

# The shortcut of sync for tickets with keys and the rest of it have the same
# rules: the same random calls are made without an order, and with one that
# changes nothing, which is left to the rest. Replies and all keys are the same.

use lib 't/lib';
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;
my $state = $scripts->state;
my @sessions = map { $scripts->session($_)->enter } qw/one two/;
my @names = qw/shortcuts rest/;
$scripts->order('rest', 12);

# begins at the same sequence number, and stays
my $keeper = $scripts->session('keeper')->enter;
for my $name (@names) {
    $keeper->ask($name, 1, limit => 12);
    $state->set_figure($name, seq => 5000);
    $state->set_figure($name, touched => 0);
}

# Everything that is stored of a name.
sub stored {
    my ($name) = @_;
    my $text = $scripts->dump(grep { $scripts->redis->cmd('EXISTS', $_) }
        $state->semaphore_keys($name), $state->fair_key($name));
    $text =~ s/\b$name\b/name/g;
    return $text;
}

# Messages by name, without it.
sub messages {
    my %of = map { $_ => [] } @names;
    for my $session (@sessions) {
        for ($session->messages) {
            my ($verb, $name, $rest) = split / /, $_, 3;
            push @{ $of{$name} }, "$verb " . $session->name . " $rest";
        }
    }
    return @of{@names};
}

$_->listen for @sessions;
srand 7;
my ($ticket, %mine, %counts, @differ) = (0);
for my $step (1 .. 600) {
    my $n = int rand 2;
    my $session = $sessions[$n];
    my $held = $counts{$n} // 0;
    my %arg = (limit => 12, fair => 1, release => $held && rand() < .7 ? 1 : 0);
    if (rand() < .8) {
        # 1 and 10^18: costs at which the increment is bounded
        my $cost = int 10 ** (rand() < .8 ? 1 + rand 4 : 18 * int rand 2);
        my $class = rand() < .2 ? 1 - 2 * int rand 2 : 0;
        $arg{ask} = [ [ ++$ticket, 1, $class, 8, $cost, chr(97 + int rand 6) ]
            ];
    }
    my @replies = map { $session->sync($_, %arg) } @names;
    my @told = $step % 20 ? ([], []) : messages();
    my $accounts = $state->accounts('rest');
    $counts{$_} = $accounts->{ $sessions[$_]->name }{held} for 0, 1;
    push @differ, $step unless eq_array([ $replies[0], $told[0] ],
        [ $replies[1], $told[1] ]) && stored('shortcuts') eq stored('rest');
    next unless @differ;
    diag explain \%arg, \@replies, \@told;
    diag stored($_) for @names;
    last;
}
is_deeply \@differ, [], 'same replies, messages and keys at each step';

# it was the shortcut: it counts the keys now and then only
my @count = map {
    my $name = $_;
    $scripts->calls(sub {
        $sessions[0]->sync($name, limit => 12, ask => [ [ ++$ticket, 1, 0, 100,
            10, 'z' ] ]) for 1 .. 16;
    })->{zcard};
} @names;
cmp_ok $count[0] // 0, '<', 8, 'the shortcut as meant';
is $count[1], 16, 'and the rest';
