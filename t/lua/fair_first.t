#!/usr/bin/perl

# A heavy ticket with a key is not overtaken by a lighter one that is acquired
# by the same call, and whose place is between it and the first that waited. With
# the place of the first one it does not wait behind that.

use lib 't/lib';
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;
my $one = $scripts->session('one')->enter;
my @limit = (limit => 10, queue => 100);

# two in use, and a heavy ticket at the head that is not the first of its key
$one->ask('api', 1, @limit, weight => 8, key => 'a');
$one->ask('api', $_, @limit, weight => 10, cost => 100_000, key => 'b')
    for 2, 3;
is_deeply $one->sync('api', limit => 10, release => 8, fair => 1)->{granted},
    [2], 'first heavy one served';
my $reply = $one->sync('api', limit => 10, release => 8, fair => 1);
is $reply->{in_use}, 2, 'permits are free, the head is too heavy';

$reply = $one->sync('api', limit => 10,
    ask => [ [4, 9, 0, 100, 1000, 'c'], [5, 1, 0, 100, 1000, 'd'] ]);
is $reply->{asked}{4}{verdict}, 'queued', 'heavy newcomer waits';
is $reply->{asked}{4}{position}, 1, 'at the head';
is $reply->{asked}{5}{verdict}, 'queued', 'a light one waits behind it';
is_deeply $one->sync('api', limit => 10, release => 2, fair => 1)->{granted},
    [4, 5], 'served in that order';

# a heavy ticket without key at the head, and a new key with the same place:
# whatever the order of sessions in the queue, no ticket waits beside a permit
# that is free for it
for (qw/first tie/) {
    my $name = $_;
    my $two = $scripts->session($name eq 'tie' ? 'aaa' : 'zzz')->enter;
    my @of = (@limit, limit => 3);
    $one->ask($name, 1, @of, weight => 3);
    # the tag of new keys is two behind this one
    $one->ask($name, 2, @of, cost => 1, key => 'a');
    $one->ask($name, 6, @of);
    $one->ask($name, 3, @of, weight => 2);
    $one->sync($name, limit => 3, release => 3, fair => 1);
    is $two->ask($name, 4, @of, key => 'b'), 'granted',
        'same place: served';
    is $two->ask($name, 5, @of, key => 'c'), 'queued',
        'then the first one';
    is_deeply $two->sync($name, limit => 3, release => 1, fair => 1)->{granted},
        [], 'not passed';
    is $one->sync($name, limit => 3, release => 1, fair => 1)->{granted}[0], 3,
        'served next';
}
