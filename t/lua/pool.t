#!/usr/bin/perl

# A pool: permits with a server each, one queue. The grant names the server with
# the largest free part of the session's list; a ticket is stepped over only for
# one that can use a server which it cannot use; what is malformed or unknown
# changes nothing.

use lib 't/lib';
use Dsem::Scripts;

# of every reply
use constant FIGURES => 10;

my $scripts = Dsem::Scripts->new;
my $redis = $scripts->redis;
my $key = $scripts->state->keys_of('sync', 'p');
my ($one, $two) = map { $scripts->session($_)->enter } qw/one two/;

# Calls sync for a pool; ask, cancel, check: numbers of tickets. Returns the
# status, and the rest of the reply, or the error.
sub pool {
    my ($session, %arg) = @_;
    my ($ask, $cancel, $check) = map { $_ // [] } @arg{qw/ask cancel check/};
    my $sum = 0;
    $sum += $_ for ($arg{freed} // '') =~ /=(\d+)/g;
    my $key = defined $arg{key} ? " 1000 $arg{key}" : '';
    local $session->{fair} = $key;
    my ($reply, @rest) = eval {
        $session->call('sync', $arg{name} // 'p', $session->gen,
            $arg{limit} // 1, $arg{flags} // 17, $arg{sum} // $sum,
            map({ scalar @$_ } $cancel, $ask, $check), $arg{name} // 'p',
            $arg{list}, $arg{freed} // '',
            map({ "$_ 1" } @$cancel),
            map({ join(' ', $_, $arg{weight} // 1, $arg{class} // 0,
                $arg{queue} // 1000) . $key } @$ask),
            map({ "$_ 1" } @$check));
    };
    return $@ =~ /(DSEM argument \d+)/ ? $1 : "died: $@" if $@;
    return $reply->{status}, @rest;
}

# the same, without the figures of the semaphore
sub results {
    my ($status, @rest) = pool(@_);
    return join ' ', $status, @rest > FIGURES ? @rest[FIGURES .. $#rest] : ();
}

sub key_of { return $scripts->state->semaphore_key($_[0]) }
sub head { return $redis->cmd('HGET', key_of($_[0] // 'p'), '.') // '' }

# IPv6, a socket, and a name of 200 bytes
my $long = 'unix:' . '%2F' x 65;
my $all = "aa %5B::1%5D:80=1 $long=2 10.0.0.1:80=2";

# refused before the first write
for (
    [ 'no list', list => '' ],
    [ 'no id', list => 'x 10.0.0.1:80=1' ],
    [ 'long id', list => 'a' x 33 ],
    [ 'two blanks', list => 'aa a=1  b=1' ],
    [ 'blank at the end', list => 'aa a=1 ' ],
    [ 'no number', list => 'aa a=1 b' ],
    [ 'limit 0', list => 'aa a=0' ],
    [ 'huge limit', list => 'aa a=' . '9' x 11 ],
    [ 'a server twice', list => 'aa a=1 a=1' ],
    [ 'a bad server', list => 'aa a[=1' ],
    [ 'a long server', list => 'aa ' . 'a' x 201 . '=1' ],
    [ '65 servers', list => join ' ', 'aa', map { "s$_=1" } 1 .. 65 ],
    [ 'a weight', list => $all, weight => 2 ],
    [ 'malformed releases', list => $all, freed => 'a=1 b' ],
    [ 'another sum', list => $all, freed => 'a=1', sum => 2 ],
    [ 'flags', list => $all, flags => 32 ],
) {
    my ($what, %arg) = @$_;
    my $before = $scripts->dump;
    like results($one, ask => [ 1 ], %arg), qr/^DSEM argument \d+$/, $what;
    is $scripts->dump, $before, "$what: nothing written";
}
is results($one, list => 'aa', ask => [ 1 ]), 'unlisted', 'unknown id';
is_deeply [ $scripts->all_keys ], [ grep { !/:s:/ } $scripts->all_keys ],
    'unlisted: nothing written';

# where no permit is out there is no head, and yet servers have their turns, also
# of a worker that numbers other tickets in between
for my $step (1 .. 4) {
    my @at = map {
        my $got = results($two, list => 'ee a=1 b=1 c=1 d=1',
            ask => [ $step * $_ ]);
        my ($number) = $got =~ /^ok 1 (\d) 0$/;
        pool($two, list => 'ee', freed => chr(96 + $number) . '=1');
        $number;
    } 1 .. 40;
    is head(), '', 'no permit is out';
    my @served = map { my $n = $_; scalar grep { $_ == $n } @at } 1 .. 4;
    is scalar(grep { $_ < 8 || $_ > 12 } @served), 0,
        "each server has its part, tickets in steps of $step" or diag "@served";
}

# the largest free part, of equal ones in turn
is results($one, list => $all, limit => 2, ask => [ 1 .. 6 ]),
    'ok 1 2 0 1 3 0 1 1 0 1 2 0 1 3 0 2 ' . (head() =~ /^5 1 2 (\d+)/)[0]
    . ' 1', 'granted by the largest free part, the sixth queued';
like head(), qr{ /\d+;;aa=1;}, 'one list';
is results($one, list => 'aa', limit => 2, freed => '10.0.0.1:80=3'), 'resync',
    'released above the count';
is results($one, list => 'aa', limit => 2, freed => '10.0.0.9:80=1'), 'resync',
    'released at a server without permits';
is results($one, list => 'aa', limit => 2, freed => '%5B::1%5D:80=1'),
    'ok 6 1', 'granted to the ticket, with its server';
is results($one, list => 'aa', limit => 2, check => [ 6 ]), 'ok 0 1 2 2',
    'a check has the permits by server';

# for a display: permits out, and the limit that sessions state
my $of = $one->inspect([ 'p' ])->{semaphores}[0];
is_deeply [ @$of{qw/held limit partial servers/} ], [ 5, 2, 0, {
    '%5B::1%5D:80' => '1 1 -', $long => '2 2 -',
    '10.0.0.1:80' => '2 2 -' } ],
    'inspect has the servers' or diag explain $of;

# a plain command leaves it alone
is $one->sync('p', limit => 9, ask => [ [ 7, 1, 0, 0 ] ])->{status}, 'mixed',
    'not as a plain semaphore';
is results($one, name => 'plain', list => $all), 'ok', 'a pool without permits';
$one->ask('plain', 1, limit => 1);
is results($one, name => 'plain', list => $all), 'mixed', 'nor the other way';

# an order is the limit of each server
my $order = $one->order('p', 1, '=');
is "$order->{limit} $order->{held}", '1 5', 'ordered';
is $order->{highest}, 2, 'highest limit of a server';
my @figures = pool($one, list => 'aa', limit => 2);
is "@figures[2, 9, 10]", '3 1 2',
    'limits of all servers, of each, and permits above these';

# a list without servers at which the account is above the limit
@figures = pool($one, list => 'ab 10.0.0.1:80=2', limit => 2);
is "@figures[2, 9, 10]", '1 1 2', 'also permits at a server that it has lost';
$one->order('p', 0, '=', $long);
is +(pool($one, list => 'ab', limit => 2))[10], 3, 'which has an order';
$one->order('p', '-', '=', $long);
is +(pool($one, list => $all, limit => 2))[10], 2, 'the list is back';
is results($one, list => 'aa', limit => 2, freed => "$long=1", ask => [ 8 ]),
    'ok 2 ' . (head() =~ /^4 1 2 (\d+)/)[0] . ' 1', 'a server at its order';
is results($one, list => 'aa', limit => 2, freed => "$long=1"),
    'ok 8 2', 'granted below it';
is $one->order('p', 0, '=')->{limit}, 0, 'order 0';
like results($one, list => 'aa', limit => 2, ask => [ 9 ]), qr/^ok 0 0 0$/,
    'all rejected';
$one->order('p', '-', 1);
like results($one, list => 'aa', limit => 2, ask => [ 10 ]), qr/^ok 2 /,
    'paused: queued beside a free permit';
$one->listen;
is $one->order('p', '-', 0)->{held}, 5, 'goes on';
like +($one->messages)[0], qr/^grant p 1 5 5 10\@\Q$long\E$/,
    'the message names the server';

# an order for one server: the others are granted, it is when that ends
is results($one, list => 'aa', limit => 2, freed => "10.0.0.1:80=1"), 'ok',
    'a free server';
$order = $one->order('p', 0, '=', '10.0.0.1:80');
is_deeply [ @$order{qw/limit configured ordered held waiting was_ordered
    refused/} ], [ 2, 2, 0, 1, 0, -1, 0 ], 'a server ordered: its figures';
is $one->order('p', '=', '=', 'aa')->{configured}, -1, 'one that no list has';
is $scripts->state->ordered('p'), '- 0 10.0.0.1:80=0', 'kept';
like results($one, list => 'aa', limit => 2, ask => [ 11, 12 ]),
    qr/^ok 2 \d+ 1 2 \d+ 2$/, 'queued beside its free permit';
is results($one, list => 'aa', limit => 2, freed => '10.0.0.1:80=1'), 'ok',
    'its last permit goes to none';
is_deeply $one->inspect([ 'p' ])->{semaphores}[0]{servers}{'10.0.0.1:80'},
    '0 2 0', 'inspect has its order';
$one->order('p', 2, 1);
is $scripts->state->ordered('p'), '2 1 10.0.0.1:80=0', 'beside that of all';
is $one->order('p', 1, '=', '%5B::1%5D:80')->{limit}, 1,
    'the limit in force is not above that of the list';
$one->order('p', '-', 0);
is $scripts->state->ordered('p'), '- 0 %5B::1%5D:80=1 10.0.0.1:80=0',
    'that of all ends, those of servers stay';
$order = $one->order('p', '-', '=', '10.0.0.1:80');
is "$order->{ordered} $order->{was_ordered}", '-1 0', 'ended';
is_deeply [ ($one->messages)[0] =~ / (\d+\@\S+)/g ],
    [ '11@10.0.0.1:80', '12@10.0.0.1:80' ], 'and granted again';
is $one->order('p', '-', '=', '%5B::1%5D:80')->{status}, 'ok', 'the last one';
is $scripts->state->ordered('p') // '', '', 'no order is left';

# as many servers as a pool may have, and at a semaphore that is none
is $one->order('p', 0, '=', "s$_")->{refused}, 0, "server $_" for 1, 64;
$scripts->state->order('p', '- 0' . join '', map { " s$_=0" } 1 .. 64);
is $one->order('p', 0, '=', 's65')->{refused}, 2, 'one more is refused';
is $one->order('p', 1, '=', 's64')->{refused}, 0, 'but not a change';
$one->order('p', '-', '=', 's1');
is $one->order('p', 0, '=', 's65')->{refused}, 0, 'one for another';
for my $bad ('- 0 a', '- 0 a=1 a=2', '- 0  a=1', '- 0 a=1 ', '- 0 a[=1',
    '- 0 a=2000000000', '- 0' . join '', map { " s$_=0" } 1 .. 65)
{
    $scripts->state->order('p', $bad);
    is $one->order('p', '=', '=')->{ordered}, -1, "malformed: '"
        . substr($bad, 0, 20) . "'";
    results($one, list => 'aa', limit => 2);
    is scalar(grep { /^order p 1 / } $one->messages), 1, 'said so';
}
$scripts->state->drop_order('p');
is results($one, list => 'aa', limit => 2, freed => '10.0.0.1:80=2'), 'ok',
    'released';
$one->ask('solid', 1, limit => 1);
is $one->order('solid', 0, '=', 's1')->{refused}, 1, 'no pool: refused';
is $scripts->state->ordered('solid') // '', '', 'and has no order';
# set at rest, or when it was a pool
for (
    [ 'of the server', '', '-', '=', 's1' ],
    [ 'of all', '', '-', 0 ],
    [ 'of another limit', '5 0', 5, '=' ],
) {
    my ($what, $left, @end) = @$_;
    $scripts->state->order('solid', '- 0 s1=0 s2=1');
    is $one->order('solid', 1, '=', 's2')->{refused}, 1, 'no pool: refused';
    is $scripts->state->ordered('solid'), '- 0 s1=0 s2=1', 'and none set';
    is $one->order('solid', @end)->{refused}, 0, "no pool: an order $what";
    is $scripts->state->ordered('solid') // '', $left, 'ends those of servers';
}
$scripts->state->drop_order('solid');
like eval { $one->order('p', 0, 1, 's1'); 'done' } // $@,
    qr/DSEM argument 6/, 'a server is not paused';
like eval { $one->order('p', 0, '=', 's 1'); 'done' } // $@,
    qr/DSEM argument 7/, 'no server';

# declared in a new epoch; the account of the old one gives its servers back
$one->hello;
for (
    [ 'a list without servers', 'bb', '10.0.0.1:80=2' ],
    [ 'a malformed list', 'bb 10.0.0.1:80', '10.0.0.1:80=2' ],
    [ '65 servers', join(' ', 'bb', map { "s$_=1" } 1 .. 65), 's1=2' ],
    [ 'malformed permits', 'bb 10.0.0.1:80=1', '10.0.0.1:80=2 b' ],
    [ 'another sum', 'bb 10.0.0.1:80=1', '10.0.0.1:80=1' ],
) {
    my ($what, $list, $held) = @$_;
    my $before = $scripts->dump;
    my $done = eval { $one->call('declare', 'p', 2, 2, 2, 0, $list, $held) };
    like $done ? 'done' : $@, qr/DSEM argument \d+/, "declared: $what";
    is $scripts->dump, $before, "declared: $what: nothing written";
}
my ($reply, $over) = $one->call('declare', 'p', 2, 2, 2, 0,
    'bb 10.0.0.1:80=1', '10.0.0.1:80=2');
is "$reply->{status} $over", 'ok 1', 'declared, one above the limit';
$one->declared;
like head(), qr{^2 0 .* /\d+;;bb=1;10\.0\.0\.1:80=2$}, 'only what was declared';
is results($one, list => 'bb', freed => '10.0.0.1:80=2'), 'ok', 'released';
is head(), '', 'nothing left';

# tickets that cannot use a free server are stepped over, however many
pool($one, list => 'aa a=1', ask => [ 1 ]);
for my $n (0 .. 1) {
    pool($one, list => 'aa a=1', ask => [ map { 100 * $n + $_ } 10 .. 99 ]);
}
is results($one, list => 'aa', class => 1, ask => [ 300 ]) =~ /^ok 2/, 1,
    'the first list is taken';
my ($more, $calls, @got, $status) = (1, 0);
my @ask = (ask => [ 1 ]);
while ($more && ++$calls < 20) {
    ($status, my @rest) = pool($two, list => 'cc a=1 b=1', @ask);
    push @got, @rest[FIGURES .. $#rest];
    ($more, @ask) = $rest[7];
}
is_deeply [ $more, @got[-2, -1] ], [ 0, 1, 2 ],
    'the other session gets the server that the first cannot use';
cmp_ok $calls, '<', 6, 'in a few calls';
is results($two, list => 'cc', freed => 'b=1', ask => [ 2 ]), 'ok 1 2 0',
    'and again at once, as the cursor is kept';
my $three = $scripts->session('three')->enter;
is results($three, list => 'dd a=1', ask => [ 1 ], class => -1) =~ /^ok 2/, 1,
    'queued before the cursor, for a server that is taken';
like head(), qr{ /\d+;\d+:(?:aa,dd|dd,aa);}, 'which is that of its list, too';
is results($three, list => 'dd', cancel => [ 1 ]), 'ok 1', 'cancelled';
is results($one, list => 'aa', freed => 'a=1'), 'ok 10 1',
    'the head is served first at its server';
is results($two, list => '-', ask => [ 3 ]) =~ /^ok 2/, 1,
    'without a server: queued';
is results($one, list => 'aa', cancel => [ 300 ]), 'ok 1', 'cancelled';

# idle permits are recalled from all sessions: any may be at the server that is
# waited for, whichever has most
my @keep = map { $scripts->session($_)->enter->listen } qw/most least/;
my %keeps = (name => 'idle', limit => 2, flags => 19);
pool($keep[0], %keeps, list => 'ff a=2', ask => [ 1, 2 ]);
pool($keep[1], %keeps, list => '1f b=1', ask => [ 1 ]);
is results($two, %keeps, list => '1f', ask => [ 500 ]) =~ /^ok 2/, 1,
    'a ticket waits for one server';
is_deeply [ map { $_->messages } @keep ],
    [ map { 'recall idle ' . $_->epoch } @keep ], 'both are asked';

# 40 lists: of those beyond 32 the servers are in one, see pool_lists.t
my @many = map { $scripts->session("n$_")->enter } 1 .. 40;
pool($_, list => sprintf('d%02x a=1 c=%d', $_->{seal_first},
    $_->{seal_first}), limit => 99, ask => [ 1 ], class => -1) for @many;
is scalar(() = head() =~ /=\d+(?=[,;])/g), 33, 'lists are bounded';
my $fields = $redis->cmd('HKEYS', key_of('p'));
is scalar(grep { /^list:/ } @$fields), 33, '32 fields, and one of the others';

# a display reads servers of some, and what is malformed of none
my $name = key_of('p');
my ($shown) = @{ $one->inspect([ 'p' ])->{semaphores} };
is join(' ', sort keys %{ $shown->{servers} }), 'a b c', 'each server once';
my $text = head();
for my $bad ("c=1 a\nshard=2", 'c=1 ' . 'a' x 201 . '=1', 'c=99999999999',
    join ' ', map { "s$_=1" } 1 .. 2000)
{
    $redis->cmd('HSET', $name, '.', $text =~ s/;[^;]*$/;$bad/r);
    my $of = $one->inspect([ 'p' ])->{semaphores}[0];
    ok !grep({ !/^[\w.:%~-]{1,200}$/ } keys %{ $of->{servers} // {} })
        && $of->{held} == $shown->{held}, 'a malformed head is read in part';
}
is $one->inspect([ 'p' ])->{semaphores}[0]{partial}, 1, 'and called partial';
$redis->cmd('HSET', $name, '.', $text);

# 32 lists of the same 64 servers: each server and its permits
my @wide = map { "s$_" } 1 .. 64;
pool($many[$_], name => 'wide', limit => 99, ask => [ 1 ],
    list => join ' ', "e$_", map { "$_=9" } @wide) for 1 .. 32;
($shown) = @{ $one->inspect([ 'wide' ])->{semaphores} };
is_deeply [ sort keys %{ $shown->{servers} } ], [ sort @wide ],
    'each server is shown';
is scalar(grep { /^1 / } values %{ $shown->{servers} }), 32,
    'with its permits';
is $shown->{partial}, 0, 'not partial';

# one list of several sessions, and none
pool($_, name => 'same', list => 'aa a=2 b=1', ask => [ 1 ], limit => 9)
    for $one, $two;
like head('same'), qr{;aa=2;}, 'a list of two sessions';
is $one->order('same', '-', 0)->{held}, 2, 'an order for all of it';
is results($two, name => 'same', list => 'aa', limit => 9, freed => 'a=1'),
    'ok', 'released';
like head('same'), qr{;aa=1;b=1$}, 'an account ends';
my $waits = results($two, name => 'none', list => '-', ask => [ 1 ]);
like $waits, qr/^ok 2/, 'no server: queued';
is results($two, name => 'none', list => '-', check => [ 1 ]), 'ok 1',
    'a check: it waits';
is $one->order('none', '-', 0)->{waiting}, 1, 'an order where no list is';
is_deeply $one->inspect([ 'none' ])->{semaphores}[0]{servers}, undef,
    'no server to display';
pool($three, name => 'same', list => 'bb a=4', limit => 9, ask => [ 1 .. 4 ]);
pool($two, name => 'same', list => 'aa', limit => 9, ask => [ 2, 3 ]);
is $one->order('same', '-', 0)->{held}, 5, 'and for two lists with a server';
pool($one, name => 'same', list => 'aa', limit => 9, freed => 'b=1');
is results($two, name => 'same', list => 'aa', limit => 9, check => [ 3 ]),
    'ok 1 0 1', 'a check: permits at one of two servers';

# more grants than one call gives, none of which a ticket is stepped over for
$one->order('many', 0, '=');
pool($one, name => 'many', list => 'aa a=999', limit => 999, ask => [ 999 ]);
$one->order('many', '-', 1);
pool($one, name => 'many', list => 'aa a=999', limit => 999,
    ask => [ 1 .. 99 ]);
my $order2 = $one->order('many', '-', 0);
is $order2->{more}, 1, 'many grants: some at once';
for (1 .. 9) {
    $order2 = $one->order('many', '=', '=') if $order2->{more};
}
is "$order2->{held} $order2->{more}", '99 0', 'the others by the next calls';

# many dead tickets before the one that is granted
my $dead = $scripts->session('dead')->enter;
pool($one, name => 'dead', list => 'aa a=1', ask => [ 1 ]);
pool($dead, name => 'dead', list => 'aa a=1', ask => [ 1 .. 200 ]);
pool($two, name => 'dead', list => 'aa a=1', ask => [ 2 ]);
$one->bye($dead);
pool($one, name => 'dead', list => 'aa', freed => 'a=1');
my ($left, $turns) = (1, 0);
while ($left && ++$turns < 20) {
    $left = (pool($two, name => 'dead', list => 'aa'))[8];
}
is head('dead') =~ /^1 0 /, 1, 'granted behind dead tickets';

# the order of a server in the list of another session
pool($one, name => 'other', list => 'aa a=1', limit => 9, ask => [ 1 ]);
pool($two, name => 'other', list => 'bb b=2', limit => 9, ask => [ 1 ]);
$one->order('other', 1, '=', 'b');
pool($one, name => 'other', list => 'aa', limit => 9, ask => [ 2 ]);
is results($one, name => 'other', list => 'aa', limit => 9, check => [ 2 ]),
    'ok 1 1', 'no server is free';

# with keys: a ticket is granted beside those that wait; a full queue drops one
pool($one, name => 'keys', list => 'aa a=1', ask => [ 1 ]);
pool($one, name => 'keys', list => 'aa', ask => [ 2 ], key => 'x');
is results($two, name => 'keys', list => 'bb a=1 b=1', ask => [ 1 ],
    key => 'y'), 'ok 1 2 0', 'with a key: granted at the free server';
is +($scripts->state->tags('keys'))[0]{y} > 0, 1, 'its key pays';
pool($two, name => 'keys', list => 'bb', ask => [ 2, 3 ], key => 'y');
is results($one, name => 'keys', list => 'aa', ask => [ 3 ], queue => 3,
    key => 'z') =~ /^ok 2/, 1, 'a full queue: queued';
like $redis->cmd('HGET', key_of('keys'), $two->name), qr/ !1 3 \@bb b=1$/,
    'for the last one of another key';

# declared: tickets, and no permit
for ([ 'another sum', 2, 'aa a=1', 'a=1' ], [ 'no text', 1, 'aa', 'a=1' ]) {
    my ($what, $held, @rest) = @$_;
    is eval { $two->call('declare', 'none', 2, $held, 2, 0, @rest); 1 }, undef,
        "declare: $what";
    like $@, qr/DSEM argument 9 /, 'refused';
}
$two->hello;
is_deeply [ ($two->call('declare', 'none', 2, 0, 2, 1, '-', '', 1, 1, 0,
    $two->epoch - 1))[2] ], [ ($waits =~ /^ok 2 (\d+)/)[0] ],
    'a ticket keeps its place';
$two->declared;

# what is lost, or was not written by a script
sub set { return $redis->cmd('HSET', key_of(shift), @_) }
is eval { $one->call('sync', 'p', $one->gen, 1, 17, 0, 0, 0, 0, 'p'); 1 },
    undef, 'no list argument';
like $@, qr/DSEM argument 4 /, 'refused';
is +($one->call('sync', 'p', $one->gen, 1, 17, 0, 0, 0, 0, 'p', '-'))[0]
    ->{status}, 'ok', 'nothing released, and no argument for it';
for my $lost (qw/first second/) {
    pool($one, name => $lost, list => 'aa a=1', ask => [ 1, 2 ]);
}
$redis->cmd('HDEL', key_of('first'), 'list:aa');
is $one->order('first', '-', 0)->{waiting}, 1, 'a list is lost: none granted';
is_deeply $one->inspect([ 'first' ])->{semaphores}[0]{servers},
    { a => '1 - -' }, 'its limits are not displayed';
set('second', '.', head('second') =~ s/;a=1$/;/r);
$one->hello;
$one->call('declare', 'second', 2, 0, 2, 0, 'aa a=1', '');
$one->declared;
is head('second'), '', 'permits by server are lost: none is left over';
$one->order('third', '-', 1);
pool($two, name => 'third', list => 'aa a=1', ask => [ 1 ]);
set('third', $two->name, $two->epoch . ' 0 1');
is $one->order('third', '-', 0)->{held}, 0, 'a list of an account is lost';
is $redis->cmd('HGET', key_of('third'), $two->name), $two->epoch
    . ' 0 1 0 1 1', 'its ticket waits for its next sync';
is results($two, name => 'third', list => 'aa a=1'), 'ok 1 1', 'granted then';
set('same', $two->name, $two->epoch . ' 1 0 0 0 0 @aa ' . 'x' x 40000);
set('same', '.', head('same') =~ s{;aa=}{;@{[ join '=1,', 100 .. 140 ]}=1,aa=}r);
($shown) = @{ $one->inspect([ 'same' ])->{semaphores} };
is_deeply [ keys %{ $shown->{accounts} } ], [ $three->name ],
    'a long account is not displayed';

# orders for a server: of a pool without a head, of a server in no list, of one
# with permits; and two tickets with keys at one place that are stepped over
for ([qw/ghost z/], [qw/same z/], [qw/same a/]) {
    my ($name, $server) = @$_;
    is +($one->call('order', $name, $name, 3, '=', $server))[0]{status}, 'ok',
        "$name: an order for $server";
    like $one->inspect([ $name ])->{semaphores}[0]{servers}{$server},
        $server eq 'z' ? qr/^0 - 3$/ : qr/^[1-9]\d* \S+ 3$/, 'is displayed';
}
pool($one, name => 'places', list => 'aa a=1', ask => [ 1 ]);
pool($_->[0], name => 'places', list => 'aa a=1', ask => [ 2 ],
    key => $_->[1]) for [ $one, 'x' ], [ $three, 'y' ];
my $places = $scripts->state->places('places');
$redis->cmd('ZADD', $scripts->state->queue_key('places'),
    map { (1000, $_) } grep { / 2 1 [xy]$/ } keys %$places);
is results($two, name => 'places', list => 'bb a=1 b=1', ask => [ 2 ]),
    'ok 1 2 0', 'granted behind them';
