#!/usr/bin/perl

# The shortcut of sync for a pool and the rest of it have the same rules: the
# same random calls are made without an order, and with one that changes nothing,
# which is left to the rest. Replies, messages and all keys are the same.

use lib 't/lib';
use Dsem::Scripts;

my $STEPS = $ENV{DSEM_LONG} ? 6_000 : 600;
my @LISTS = map { [ split / /, $_, 2 ] } 'aa a=1 b=2 c=9', 'bb a=1 b=3 c=2 d=1',
    'cc d=2 e=3 c=1', 'dd b=1';
my @names = qw/shortcut rest/;

my $scripts = Dsem::Scripts->new;
my ($state, $redis) = ($scripts->state, $scripts->redis);
my @sessions = map { $scripts->session("n$_")->enter->listen } 1 .. 4;
# of a server that there is not, and of one that has a lower limit
$state->order($_, '- 0 c=9 z=1') for 'rest', 'odd_rest';
my ($ticket, %list, @differ) = (0);
$list{ $_->name } = $LISTS[0] for @sessions;

# One sync of a pool; $asks acquires.
sub pool {
    my ($session, $name, $arg) = @_;
    my @freed = map { "$_=$arg->{freed}{$_}" } sort keys %{ $arg->{freed} };
    local $session->{fair} = $arg->{key};
    return [ $session->call('sync', $name, $session->gen,
        $arg->{limit}, 16 + $arg->{flags}, scalar @freed, 0, scalar @{ $arg->{asks} }, 0,
        $name, $arg->{list}, "@freed", map { $arg->{key} ? "$_ 100 k" : $_ }
            @{ $arg->{asks} }) ];
}

# What is stored of a name, servers and lists in order.
sub stored {
    my ($name) = @_;
    my @keys = grep { $redis->cmd('EXISTS', $_) }
        $state->semaphore_keys($name), $state->fair_key($name);
    my $text = @keys ? $scripts->dump(@keys) : '';
    $text =~ s/\b$name\b/name/g;
    $text =~ s/(?<=[ ;,])\w+=\d+(?:[ ,]\w+=\d+)*/join ' ', sort split m{[ ,]}, $&/ge;
    return $text;
}

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

# Permits that a session has, by server.
sub held {
    my ($session) = @_;
    my $text = $redis->cmd('HGET', $state->semaphore_key('rest'),
        $session->name) // '';
    return map { split /=/ } $text =~ /(\w=\d+)/g;
}

srand 11;
my $short = 0;
for my $step (1 .. $STEPS) {
    if (rand() < .01) {
        my ($leaves) = splice @sessions, rand @sessions, 1;
        $leaves->bye;
        push @sessions, $scripts->session("m$step")->enter->listen;
    }
    my $session = $sessions[ rand @sessions ];
    $list{ $session->name } = $LISTS[ rand @LISTS ] if rand() < .05;
    my ($id, $text) = @{ $list{ $session->name } //= $LISTS[0] };
    my %held = held($session);
    my %freed = map { rand() < .6 ? ($_ => 1) : () } sort keys %held;
    # a release of what it does not have
    $freed{x} = 1 if rand() < .01;
    my %arg = (
        freed => \%freed, flags => 1 + 2 * int rand 2, key => rand() < .2,
        limit => rand() < .1 ? 2 : 3, list => rand() < .2 || !%held ? "$id $text" : $id,
        asks => [ map { ++$ticket . ' 1 0 ' . (rand() < .04 ? 1 : 0) }
            1 .. int rand 2.4 ],
    );
    my $calls = $scripts->calls(sub { $arg{short} =
        pool($session, 'shortcut', \%arg) });
    # the rest reads a list that is not stated by itself
    $short++ if $arg{list} eq $id && !$calls->{hget}
        && $arg{short}[0]{status} eq 'ok';
    my $rest = pool($session, 'rest', \%arg);
    my @told = $step % 20 ? ([], []) : messages();
    next if eq_array([ $arg{short}, $told[0] ], [ $rest, $told[1] ])
        && stored('shortcut') eq stored('rest');
    push @differ, $step;
    diag explain \%arg, $rest, \@told;
    diag stored($_) for @names;
    last;
}
# A call that is not of the usual kind, for two other names.
sub same {
    my ($what, $session, $limit, $numbers, @argv) = @_;
    my @got = map {
        [ eval { $session->call('sync', $_, $session->gen, $limit,
            @$numbers[ 0 .. 2 ], $numbers->[3], 0, $_, @argv) },
            $@ =~ /(DSEM argument \d+.*?)(?: script|$)/m ];
    } qw/odd odd_rest/;
    is_deeply $got[0], $got[1], "$what: same reply";
    is stored('odd'), stored('odd_rest'), "$what: same keys";
}

my ($one, $two) = map { $scripts->session($_)->enter } qw/one two/;
my $bb = join ' ', @{ $LISTS[1] };
same('all of a server', $two, 3, [ 17, 0, 0, 3 ], 'ff f=9', '',
    map { "$_ 1 0 9" } 1 .. 3);
same('which is lost', $two, 3, [ 17, 0, 0, 1 ], $bb, '', '4 1 0 9');
same('where the limit is lower', $two, 2, [ 17, 0, 0, 1 ], 'bb', '',
    '5 1 0 9');
same('given back', $two, 3, [ 17, 3, 0, 4 ], 'bb', 'f=3',
    map { "$_ 1 0 9" } 6 .. 9);
same('others', $one, 3, [ 17, 0, 0, 1 ], $bb, '', '3 1 0 9');
same('one is free', $two, 3, [ 17, 1, 0, 0 ], 'bb', 'c=1');
same('a server twice', $two, 3, [ 17, 2, 0, 0 ], 'bb', 'b=1 b=1');
same('another sum', $two, 3, [ 17, 1, 0, 0 ], 'bb', '');
same('no sum', $two, 3, [ 17, 0, 0, 0 ], 'bb', 'b');
same('two blanks', $two, 3, [ 17, 2, 0, 0 ], 'bb', 'b=1  c=1');
same('not held', $two, 3, [ 17, 2, 0, 0 ], 'bb', 'd=2');
same('a weight', $two, 3, [ 17, 0, 0, 1 ], 'bb', '', '20 2 0 9');
same('flags', $two, 3, [ 33, 0, 0, 1 ], 'bb', '', '20 1 0 9');
same('an id that is none', $two, 3, [ 17, 0, 0, 1 ], 'bbz', '', '20 1 0 9');
same('another text', $two, 3, [ 17, 0, 0, 0 ], 'bb a=9', '');
same('no releases', $two, 3, [ 17, 0, 0, 0 ], 'bb');
same('no arguments', $two, 3, [ 17, 0, 0, 0 ]);
same('no list', $two, 3, [ 17, 0, 0, 0 ], '-', '');

is_deeply \@differ, [], 'same replies, messages and keys at each step';
cmp_ok $short, '>', $STEPS / 6, 'often by the shortcut';
note "$short of $STEPS";

$scripts->done;
