#!/usr/bin/perl

# A pool keeps 32 lists of servers. A session with another one has it in its
# account: its tickets are served in the order of the queue, too.

use lib 't/lib';
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;
my ($redis, $state) = ($scripts->redis, $scripts->state);
my ($name, $ticket, %session, %list) = ('', 0);

# A list as text, of "a" or "a b=2".
sub stated { join ' ', map { /=/ ? $_ : "$_=1" } split ' ', $_[0] }

# A session with this list; its id is the name in hex.
sub session {
    my ($id, $list) = @_;
    $session{$id} = $scripts->session("$name$id")->enter->listen;
    $list{$id} = unpack('H*', $id) . ' ' . stated($list);
}

# What follows the figures in the reply, and whether work is left.
sub pool {
    my ($id, %arg) = @_;
    my ($ask, $cancel, $check) = map { $_ // [] } @arg{qw/ask cancel check/};
    my ($freed, $class) = (stated($arg{freed} // ''), $arg{class} // 0);
    my ($reply, @rest) = $session{$id}->call('sync', $name, $session{$id}->gen,
        99, 17, scalar(() = $freed =~ /=/g),
        map({ scalar @$_ } $cancel, $ask, $check), $name, $list{$id}, $freed,
        map({ "$_ 1" } @$cancel), map({ "$_ 1 $class 1000" } @$ask),
        map({ "$_ 1" } @$check));
    my $more = $rest[7];
    return join(' ', $reply->{status}, @rest[10 .. $#rest]), $more;
}

# A ticket: the server that it gets, or 0: it waits.
sub ask {
    my ($id, @arg) = @_;
    my ($result) = pool($id, ask => [ ++$ticket ], @arg);
    my ($verdict, $number) = $result =~ /^ok (\d) (-?\d+)/ or return $result;
    my @servers = $list{$id} =~ /(\S+)=/g;
    return $verdict == 1 ? $servers[$number - 1] : $verdict == 2 ? 0 : $result;
}

# Until no work is left; returns how many calls more that takes.
sub release {
    my ($id, $server) = @_;
    my ($calls, $more) = (0, (pool($id, freed => $server))[1]);
    ($more) = (pool('f1'))[1] while $more && ++$calls < 20;
    return $calls;
}

# The servers that messages have given to a session.
sub granted { join ' ', map { /@(\S+)/g } $session{ $_[0] }->messages }

sub head { $redis->cmd('HGET', $state->semaphore_key($name), '.') }
sub fields { sort @{ $redis->cmd('HKEYS', $state->semaphore_key($name)) } }
sub account {
    return $redis->cmd('HGET', $state->semaphore_key($name),
        $session{ $_[0] }->name) // '';
}

# A pool with 32 lists, each of which has its own permit out; more: those of one
# more server, by number, which is taken, too.
sub full {
    ($name, my %more) = @_;
    session("f$_", join ' ', "f$_", $more{$_} // ()) for 1 .. 32;
    is join(' ', sort map { ask("f$_") } 1 .. 32, keys %more),
        join(' ', sort map({ "f$_" } 1 .. 32), values %more),
        "$name: 32 lists";
}

# the 33rd waits at the head; others come behind it for the same server
full('order');
session($_, "s u$_") for 'a' .. 'f';
is join(' ', sort map { ask('a') } 1, 2), 's ua', 'by its own list: two permits';
is ask('b'), 'ub', 'a second one with its own list';
is ask('b'), 0, 'which waits';
is ask('c'), 'uc', 'a third one';
is ask('c'), 0, 'waits behind it';
is $state->figure($name, 'parked'), 0, 'none is parked';
release('a', 's');
is granted('b'), 's', 'first come, first served';
release('b', 's');
is granted('c'), 's', 'the other one next';
is scalar(grep { /^list:/ } fields()), 33, '32 lists, and one of the others';
like account('c'), qr/ \@!63:s=1,uc=1 (?=.*\bs=1)/, 'the list of an account';
is_deeply $session{a}->inspect([ $name ])->{semaphores}[0]{servers}{ub},
    '1 1 -', 'shown: a server of own lists only';

# one list has gone, the next one to come is kept
release('f1', 'f1');
is ask('d'), 'ud', 'one more is kept';
like account('d'), qr/ \@64 ud=1/, 'by its id';
release('c', 's');
release('f2', 'f2');
session('g', 's');
$list{g} = $list{c};
is ask('g'), 's', 'another one is kept';
pool('c');
like account('c'), qr/ \@63 uc=1$/, 'by all that have it, with the next sync';
release('g', 's');
release($_, "u$_") for 'a' .. 'd';
is scalar(grep { $_ eq 'list:*' } fields()), 0, 'no own list is left';

# a free server that is in own lists only is noticed, also one with a higher
# limit in another of them
full('free');
session('a', 'x=2 y');
session('b', 'x=3 y');
session('c', 'x');
session('d', 'w');
is join(' ', sort map { ask('a') } 1 .. 3), 'x x y', 'all permits of one list';
is ask('c'), 0, 'one waits for a server of another one';
is ask('b'), 'x', 'the limit of the last one is higher';
is ask('a'), 0, 'the first one waits';
is ask('b'), 0, 'and the last one';
release('a', 'x');
is granted($_), '', "still full for $_" for 'a', 'c';
is granted('b'), 'x', 'free for the last one only';
release('b', 'x');
is granted('a'), '', 'full for the first one';
session('e', join ' ', map { "e$_" } 1 .. 6);
like ask('e'), qr/^e\d$/, 'many servers are free that no ticket can use';
release('b', 'x');
is granted('a'), 'x', 'and one that it can use';

# more tickets than a call looks at, of sessions with lists of their own
full('many', 32 => 'v');
session('a', 's t');
session('b', 's t v');
session('c', 'w');
session('d', 'z');
is join(' ', sort map { ask('a') } 1, 2), 's t', 'both servers are taken';
is ask('c'), 'w', 'a third one';
is ask('d'), 'z', 'a fourth one';
ask('a') for 1 .. 70;
my $first = $ticket + 1;
ask('b') for 1 .. 70;
is ask('c'), 0, 'waits behind 140 others';
is ask('d'), 0, 'and another one';
my $calls = release('c', 'w');
is granted('c'), 'w', 'is served past them';
cmp_ok $calls, '<', 6, "in a few calls ($calls)";
release('c', 'w');
like head(), qr{ /\d+;\d+:[^;]*\*w}, 'the cursor stays, as that server is free';
pool('a');
like head(), qr{ /\d+;\d+:[^;]*\*w}, 'also when its sessions call';
$session{f1}->order($name, '-', 1);
pool('f1');
like head(), qr{ /\d+;\d+:[^;]*\*w}, 'and while it is paused';
$session{f1}->order($name, '-', 0);
release('d', 'z');
is granted('d'), 'z', 'the next one is served from there';
release('f32', 'v');
like join(' ', $session{b}->messages), qr/ $first\@v$/,
    'a server of those before the cursor: from the head';
is $state->figure($name, 'parked'), 0, 'none was parked';

# before the cursor there are lists that are kept, then an own one comes there
full('mixed', 30 => 'w', 31 => 'q', 32 => 's');
session('a', 's q');
ask('f32') for 1 .. 70;
session('b', 's q');
is ask($_), 0, "mixed: $_ waits behind them" for 'b', 'f29';
pool('f30', freed => 'w');
like head(), qr{ /\d+;\d+:[^;*]*;}, 'the cursor is before it';
$session{f29}->bye;
pool('f1') for 1 .. 3;
is granted('b'), '', 'looked for a dead ticket: none is granted';
is ask('f30'), 'w', 'no server is free';
pool('f1');
is ask('a', class => -1), 0, 'waits before all others';
like head(), qr{ /\d+;\d+:[^;]*\*[,;]}, 'no server is free that it cannot use';
release('f31', 'q');
is granted('a'), 'q', 'it is served when one of its servers is free';

# servers of own lists are bounded: at most 256
full('others');
for my $id ('a' .. 'j') {
    session($id, join ' ', map { "$id$_" } 1 .. 60);
    like ask($id), qr/^$id\d+$/, "others: a permit of $id";
    my $others = $redis->cmd('HGET', $state->semaphore_key($name), 'list:*');
    my $count = () = $others =~ /=/g;
    cmp_ok $count, '<=', 256, "others: $count servers";
    like $others, qr/\b${id}60=1\b/, 'others: those of the last one';
}
