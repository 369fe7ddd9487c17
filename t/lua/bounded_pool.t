#!/usr/bin/perl

# A pool with 64 servers, a permit in each of 1,000 sessions, and more lists of
# servers than are kept: a call needs some commands. Most calls need as many as
# with half of the servers and a hundredth of the sessions.

use lib 't/lib';
use Dsem::Scripts;

my $LISTS = 80;
my %SIZE = (
    few => { servers => 32, sessions => 10 },
    many => { servers => 64, sessions => 1000 },
);

my $scripts = Dsem::Scripts->new;
my ($redis, $state) = ($scripts->redis, $scripts->state);
my @all = map { $scripts->session("n$_")->enter } 1 .. $LISTS;
my (%calls, $ticket);

# An id, and servers with four permits each.
sub list {
    my ($of, $id) = @_;
    return join ' ', $id, map { "s$_=4" } 1 .. $of->{servers};
}

# A call of sync that gives back a permit of the first server, or asks.
sub pool {
    my ($session, $name, $list, $asks) = @_;
    my $back = $asks ? 0 : 1;
    return $session->call('sync', $name, $session->gen, 4, 17, $back, 0, $asks,
        0, $name, $list, $back ? 's1=1' : '',
        map { ++$ticket . ' 1 0 1000' } 1 .. $asks);
}

# Commands of what is done to a pool.
sub counted {
    my ($what, $name, $code) = @_;
    my $calls = $scripts->calls($code);
    cmp_ok delete $calls->{all}, '<', 60, "$name: $what: some commands";
    $calls{$what}{$name} = join ', ', map { "$_ $calls->{$_}" }
        sort keys %$calls;
}

for my $name (sort keys %SIZE) {
    my $of = $SIZE{$name};
    my ($one, $two, @others) = @all;
    my $list = list($of, 'aa');
    my $permits = 4 * $of->{servers};
    pool($others[$_], $name, list($of, "b$_"), 1) for 0 .. $#others;
    # 1,000 calls would take long
    $redis->cmd('HSET', $state->semaphore_key($name), map {
        ("o$_:0:$_" => '1 1 0 0 0 0 @aa s1=1')
    } 1 .. $of->{sessions});
    my $own = $permits - @others;
    pool($one, $name, $list, $own - 1);

    counted('a free permit', $name, sub { pool($one, $name, $list, 1) });
    is $state->counts($name), "$permits 0", "$name: all are taken";
    my $other = list($of, 'b0');
    counted('queued', $name, sub { pool($two, $name, $other, 1) });
    pool($two, $name, $other, 100);
    counted('handed on', $name, sub { pool($one, $name, $list, 0) });
    is $state->counts($name), "$permits 100", "$name: to a ticket";
    counted('declared', $name, sub {
        $one->hello;
        $one->call('declare', $name, 4, $own - 1, 2, 0, $list,
            join ' ', 's1=' . ($own - 1));
        $one->declared;
    });
    counted('ordered', $name, sub { $two->order($name, 1, '=') });
    counted('shown', $name, sub { $two->inspect([ $name ]) });
}
is $calls{$_}{many}, $calls{$_}{few}, "$_: as many commands"
    for 'a free permit', 'queued', 'handed on', 'declared';

# many permits for many sessions, with one list, and with as many as are kept
for ([ 'one list', 1 ], [ '32 lists', 32 ]) {
    my ($name, $lists) = @$_;
    my ($first, @others) = @all;
    my @list = map { list($SIZE{many}, "c$_") } 1 .. $lists;
    pool($first, $name, $list[0], 256);
    pool($others[$_], $name, $list[ $_ % $lists ], 1) for 0 .. 59;
    my ($syncs, $granted, @counts, $reply, @rest) = (0, 0);
    do {
        ($reply, @rest) = $first->call('sync', $name, $first->gen, 4, 17,
            $syncs ? 0 : 60, 0, 0, 0, $name, 'c1',
            $syncs ? '' : join ' ', map { "s$_=1" } 1 .. 60);
        push @counts, 60 - $granted - $rest[2];
        $granted += $counts[-1];
    } while ($rest[7] && ++$syncs < 20);
    is $granted, 60, "$name: all granted" or diag "@counts";
    is $counts[0], 32, "$name: some by the first call" or diag "@counts";
}
