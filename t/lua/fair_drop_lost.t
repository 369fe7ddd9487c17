#!/usr/bin/perl

# A sync names dropped tickets, and its reply is lost: the session declares them,
# and they are not queued again. A ticket that is not there for another reason
# keeps its place: it may have been granted by a reply that was lost, too.

use lib 't/lib';
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;
my $state = $scripts->state;
my ($one, $two, $three) = map { $scripts->session($_)->enter }
    qw/one two three/;

# Tickets of a session as they are declared, with their places now.
sub waits {
    my ($name, $session, @numbers) = @_;
    my ($places, %at) = ($state->places($name));
    for (keys %$places) {
        my ($of, undef, $number) = split;
        $at{$number} = $places->{$_} if $of eq $session->name;
    }
    return map { [ $_, 1, $at{$_}, $session->epoch, 1000, 'noisy' ] } @numbers;
}

sub declared {
    my ($name, $session, @arg) = @_;
    return join ' ', @{ $session->declare($name, @arg)->{places} };
}

sub named_by { return join ' ', sort @{ $two->sync($_[0], fair => 1)->{dropped} } }

sub ask_many {
    my ($session, $name, $most, @numbers) = @_;
    $session->sync($name, ask => [
        map { [ $_, 1, 0, $most, 1000, 'noisy' ] } @numbers ]);
}

# one of two tickets
$one->ask('api', 99, key => 'x');
ask_many($two, 'api', 2, 1, 2);
my @waits = waits('api', $two, 1, 2);
is $one->ask('api', 100, queue => 2, key => 'quiet'), 'queued', 'last dropped';
is named_by('api'), 2, 'named';
$two->hello;
is declared('api', $two, tickets => \@waits), "$waits[0][2] 0",
    'not queued again';
$two->declared;
is $state->waiting('api'), 2, 'no longer queue';
$two->hello;
$waits[0][3]++;
is declared('api', $two, tickets => \@waits), "$waits[0][2] 0",
    'nor by the next epoch';
$two->declared;

# acquired again in the next epoch: the record is that of an older ticket
is $two->ask('api', 2, queue => 9, key => 'noisy'), 'queued', 'acquired again';
my ($again) = waits('api', $two, 2);
$scripts->redis->cmd('ZREM', $state->queue_key('api'),
    $two->name . ' ' . $two->epoch . ' 2 1 noisy');
$two->hello;
is declared('api', $two, tickets => [$again]), $again->[2],
    'acquired again: keeps its place';
$two->declared;

# another one is dropped in that epoch, and this one has left the queue: what was
# named in an older epoch is void
ask_many($two, 'api', 9, 4);
$one->ask('api', 102, queue => $state->waiting('api'), cost => 1, key => 'third');
is named_by('api'), 4, 'another dropped in the next epoch';
$scripts->redis->cmd('ZREM', $state->queue_key('api'),
    $two->name . ' ' . $two->epoch . ' 2 1 noisy');
$two->hello;
$again->[3] = $two->epoch - 1;
is declared('api', $two, tickets => [$again]), $again->[2],
    'another dropped: keeps its place';
$two->declared;

# the only ticket of a session: it has no account then
$one->ask('single', 99, key => 'x');
ask_many($three, 'single', 2, 1);
ask_many($two, 'single', 2, 2);
@waits = waits('single', $two, 2);
$one->ask('single', 100, queue => 2, key => 'quiet');
is named_by('single'), 2, 'only ticket: named';
is $state->account('single', $two->name), undef, 'only ticket: no account';
$two->hello;
is declared('single', $two, tickets => \@waits), 0,
    'only ticket: not queued again';
$two->declared;

# in a later part of the account
$one->ask('parts', 99, key => 'x');
ask_many($two, 'parts', 5, 1 .. 5);
@waits = waits('parts', $two, 1 .. 5);
$one->ask('parts', 100, queue => 5, key => 'quiet');
$one->ask('parts', 101, queue => 5, key => 'other');
named_by('parts');
$two->hello;
declared('parts', $two, tickets => [ @waits[0, 1] ]);
is declared('parts', $two, more => 1, tickets => [ @waits[2 .. 4] ]),
    "$waits[2][2] 0 0", 'parts: not queued again';
$two->declared;
is $state->waiting('parts'), 5, 'parts: no longer queue';

# by two replies, and a ticket without key
$one->ask('replies', 99, key => 'x');
ask_many($two, 'replies', 9, 1, 2);
$two->sync('replies', ask => [ [ 3, 1, 0, 9 ] ]);
@waits = waits('replies', $two, 1 .. 3);
splice @{ $waits[2] }, 4;
$one->ask('replies', 100, queue => 3, key => 'quiet');
is named_by('replies'), 3, 'first reply';
$one->ask('replies', 101, queue => 3, key => 'other');
is named_by('replies'), 2, 'second reply';
$two->hello;
is declared('replies', $two, fair => 1, tickets => [ $waits[2] ]), 0,
    'without key';
is declared('replies', $two, more => 1, tickets => [ @waits[0, 1] ]),
    "$waits[0][2] 0", 'of both replies';
$two->declared;

# many, by several replies, with long numbers
my @numbers = map { 3_000_000_000_000_000 + $_ } 1 .. 200;
$one->ask('many', 99, key => 'x');
ask_many($two, 'many', 200, @numbers);
@waits = waits('many', $two, @numbers);
my $drops = 0;
for my $reply (1 .. 6) {
    $one->ask('many', 1000 * $reply + $_, queue => 200, key => "k$reply-$_")
        for 1 .. 30;
    $drops += split ' ', named_by('many');
}
$two->hello;
my $part = 0;
while (my @part = splice @waits, 0, 100) {
    $two->declare('many', more => $part++, tickets => \@part);
}
$two->declared;
is "$drops " . $state->waiting('many'), '180 200', 'many: no longer queue';

# a grant is no drop, whatever the session holds meanwhile: here another ticket
# has got the permit of this one
$two->ask('grant', 1, key => 'x', queue => 3);
$two->ask('grant', 2, key => 'noisy', queue => 3);
$two->ask('grant', 3, key => 'b', queue => 3);
@waits = waits('grant', $two, 2);
is_deeply $two->sync('grant', release => 1, fair => 1)->{granted}, [2],
    'granted by a lost reply';
$two->hello;
is declared('grant', $two, held => 1, tickets => \@waits), $waits[0][2],
    'granted: keeps its place';
$two->declared;

# of more replies than may be on their way the last ones
@numbers = map { 3_000_000_000_000_000 + $_ } 1 .. 40;
$one->ask('long', 99, key => 'x');
ask_many($two, 'long', 40, @numbers);
@waits = waits('long', $two, @numbers);
for my $reply (1 .. 20) {
    $one->ask('long', 100 + $reply, queue => 40, key => "k$reply", cost => 1);
    named_by('long');
}
cmp_ok length $scripts->redis->cmd('HGET', $state->named_key('long'), $two->name),
    '<=', 8 * 17 + 9, 'eight numbers';
$two->hello;
$two->declare('long', tickets => [ @waits[20 .. 27] ]);
is $state->waiting('long'), 20, 'of the last eight replies: none queued again';
$two->declared;

# a key of another type is no loss of state
$scripts->redis->cmd('DEL', $state->named_key('type'));
$scripts->redis->cmd('SET', $state->named_key('type'), 'x');
$one->ask('type', 99, key => 'x');
ask_many($two, 'type', 2, 1, 2);
@waits = waits('type', $two, 1, 2);
$one->ask('type', 100, queue => 2, key => 'quiet');
is named_by('type'), 2, 'another type: named';
$two->hello;
is declared('type', $two, tickets => \@waits), "$waits[0][2] $waits[1][2]",
    'another type: declared';

$scripts->done;
