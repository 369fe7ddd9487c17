#!/usr/bin/perl

# A session that remembers a higher term than the state, of the same generation,
# has been registered with a later master: the state is an old one and recovers.
# Each master that takes over has a higher term, also after a state that is old.

use lib 't/lib';
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;
my $redis = $scripts->redis;

sub save {
    return { map { $_ => $redis->cmd('DUMP', $_) } $scripts->all_keys };
}

sub name_again {
    my ($saved) = @_;
    $redis->cmd('FLUSHALL');
    $redis->cmd('RESTORE', $_, 0, $saved->{$_}) for keys %$saved;
}

my ($one, $two) = map { $scripts->session($_)->enter } qw/one two/;
my $first = $one->{term};
cmp_ok $first, '>', 0, 'a first state has a term';
is $two->{term}, $first, 'the same for all';
is $two->enter->{term}, $first, 'and for a new epoch';
my $former = save();

# another process takes over
cmp_ok $one->hello(restarted => 1)->{recovery}, '>', 0, 'a process takes over';
my $second = $one->{term};
cmp_ok $second, '>', $first, 'higher term';
is $two->enter->{term}, $second, 'the same for the other session';
is $one->declared->{recovery}, 0, 'recovered';
is $two->ask('api', 1, limit => 1), 'granted', 'granted by the new master';
my $later = save();

# the former one is named again
name_again($former);
cmp_ok $one->hello->{recovery}, '>', 0, 'former master: recovers';
my $third = $one->{term};
cmp_ok $third, '>', $second, 'higher term again';
$one->declared;
is $one->ask('api', 1, limit => 1), 'recovering', 'nothing granted';
$two->hello;
is $two->{term}, $third, 'no census by the other session';
$two->declare('api', held => 1);
is $two->declared->{recovery}, 0, 'recovered';
is $one->ask('api', 2, limit => 1, queue => 9), 'queued', 'permit counted';

# and the other one
name_again($later);
cmp_ok $two->hello->{recovery}, '>', 0, 'new master once more: recovers';
cmp_ok $two->{term}, '>', $third, 'higher term again';
$two->declared;
is $one->enter->hello(term => $second)->{recovery}, 0, 'older terms are known';
is $one->declared->{recovery}, 0, 'recovered';

# terms of another generation say nothing
$redis->cmd('FLUSHALL');
my $three = $scripts->session('three')->enter;
is $two->hello(gen => 7, told => 0, term => 2 ** 40)->{term}, $three->{term},
    'term of another generation ignored';
is $two->hello(term => 0)->{term}, $three->{term}, 'a session without one';

# a state without its term
$scripts->pass(6000, $two, $three);
$redis->cmd('HDEL', $scripts->state->key, 'term');
is $two->hello->{recovery}, 0, 'term lost: no census';
is $two->{term}, $three->{term}, 'that of the session';
