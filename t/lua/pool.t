#!/usr/bin/perl

# A pool: permits with a server each, one queue. The grant names the server with
# the largest free part of the session's list; a ticket is stepped over only for
# one that can use a server which it cannot use; what is malformed or unknown
# changes nothing.

use lib 't/lib';
use Dsem::Scripts;
use Dsem::Test;

# of every reply
use constant FIGURES => 10;

my $scripts = Dsem::Scripts->new(Dsem::Test->new);
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
    my ($reply, @rest) = eval {
        $session->call('sync', $arg{name} // 'p', $session->gen,
            $arg{limit} // 1, $arg{flags} // 17, $arg{sum} // $sum,
            map({ scalar @$_ } $cancel, $ask, $check), $arg{name} // 'p',
            $arg{list}, $arg{freed} // '',
            map({ "$_ 1" } @$cancel),
            map({ join ' ', $_, $arg{weight} // 1, $arg{class} // 0, 1000 }
                @$ask),
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

sub head { $redis->cmd('HGET', ($scripts->keys_of('sync', 'p'))[1], '.') // '' }

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
    '%5B::1%5D:80' => '1 1', $long => '2 2', '10.0.0.1:80' => '2 2' } ],
    'inspect has the servers' or diag explain $of;

# a plain command leaves it alone
is $one->sync('p', limit => 9, ask => [ [ 7, 1, 0, 0 ] ])->{status}, 'broken',
    'not as a plain semaphore';
is results($one, name => 'plain', list => $all), 'ok', 'a pool without permits';
$one->ask('plain', 1, limit => 1);
is results($one, name => 'plain', list => $all), 'broken', 'nor the other way';

# an order is the limit of each server
my $order = $one->order('p', 1, '=');
is "$order->{limit} $order->{held}", '1 5', 'ordered';
my @figures = pool($one, list => 'aa', limit => 2);
is "@figures[2, 9, 10]", '3 1 2',
    'limits of all servers, of each, and permits above these';
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
is results($one, list => 'aa', freed => 'a=1'), 'ok 10 1',
    'the head is served first at its server';
is results($two, list => '-', ask => [ 3 ]) =~ /^ok 2/, 1,
    'without a server: queued';
is results($one, list => 'aa', cancel => [ 300 ]), 'ok 1', 'cancelled';

# 40 lists: those beyond 32 are not kept, their tickets wait for their syncs
my @many = map { $scripts->session("n$_")->enter } 1 .. 40;
pool($_, list => sprintf('d%02x a=1 c=%d', $_->{seal_first},
    $_->{seal_first}), limit => 99, ask => [ 1 ], class => -1) for @many;
is scalar(() = head() =~ /=1[,;]/g) <= 33, 1, 'lists are bounded';
my $fields = $redis->cmd('HKEYS', ($scripts->keys_of('sync', 'p'))[1]);
is scalar(grep { /^list:/ } @$fields), 32, '32 fields';

# a display reads servers of some, and what is malformed of none
my $name = ($scripts->keys_of('sync', 'p'))[1];
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

# 32 lists of 64 servers: not all are read, but each server and its permits
my @wide = map { "s$_" } 1 .. 64;
pool($many[$_], name => 'wide', limit => 99, ask => [ 1 ],
    list => join ' ', "e$_", map { "$_=9" } @wide) for 1 .. 32;
($shown) = @{ $one->inspect([ 'wide' ])->{semaphores} };
is_deeply [ sort keys %{ $shown->{servers} } ], [ sort @wide ],
    'each server is shown';
is scalar(grep { /^1 / } values %{ $shown->{servers} }), 32,
    'with its permits';
is $shown->{partial}, 1, 'partial';

$scripts->done;
