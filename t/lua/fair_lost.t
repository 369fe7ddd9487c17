#!/usr/bin/perl

# Lost keys: without the tags, or without the queue, tickets keep their places
# and their order inside a key.

use lib 't/lib';
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;
my $state = $scripts->state;
my $redis = $scripts->redis;
my $one = $scripts->session('one')->enter;
my $two = $scripts->session('two')->enter;

# Tickets of two keys: a 1 2 3, b 4 5
sub fill {
    my ($name) = @_;
    $one->ask($name, 99, key => 'x');
    $one->ask($name, $_, key => 'a') for 1 .. 3;
    $two->ask($name, $_, key => 'b') for 4, 5;
}

sub served {
    my ($name) = @_;
    my ($session, @served) = ($one);
    while (my ($next) = $scripts->queue($name)) {
        push @served, (split ' ', $next)[2];
        $session->sync($name, release => 1, fair => 1);
        $session = $served[-1] =~ /^[45]$/ ? $two : $one;
    }
    return "@served";
}

# the tags, noticed by the shortcut and by the rest
for my $name (qw/api web/) {
    $scripts->order('web', 1) if $name eq 'web';
    fill($name);
    $state->delete_tags($name);
    is $one->ask($name, 6, key => 'a'), 'queued', "$name: tags lost: queued";
    is $one->ask($name, 7, key => 'c'), 'queued', "$name: another one";
    is $one->ask($name, 8, key => 'a'), 'queued', "$name: a third one";
    is served($name), '1 4 2 5 3 6 7 8', "$name: places kept, then fair again";
}
is $redis->cmd('EXISTS', $state->fair_key('api')), 0, 'no tags left';

# a key of another type
fill('bad');
$state->delete_tags('bad');
$redis->cmd('SET', $state->fair_key('bad'), 'x');
is $one->ask('bad', 6, key => 'a'), 'broken', 'other type: broken';
is $one->sync('bad', release => 1, fair => 1)->{status}, 'ok',
    'other type: permits still released';
$redis->cmd('DEL', $state->fair_key('bad'));
is $one->ask('bad', 6, key => 'a'), 'queued', 'deleted: usable again';
$redis->cmd('SET', $state->fair_key('begins'), 'x');
fill('begins');
is served('begins'), '1 4 2 5 3', 'other type: replaced by a new queue';

# the queue, with and without the tags
for my $tags (0, 1) {
    my $name = "queue$tags";
    fill($name);
    my $places = $state->places($name);
    $state->delete_queue($name);
    $state->delete_tags($name) if $tags;
    is $two->sync($name, release => 0, ask => [ [ 6, 1, 0, 10, 1000, 'b' ] ])
        ->{status}, 'resync', "$name: noticed";
    my @of = ([ $one, 1, 'a', 1, 2, 3 ], [ $two, 0, 'b', 4, 5 ]);
    for (@of) {
        my ($session, $held, $key, @tickets) = @$_;
        $session->hello;
        $session->declare($name, held => $held, tickets => [ map { [ $_, 1,
            $places->{ $session->name . ' '. ($session->epoch - 1)
                . " $_ 1 $key" }, undef, 1000, $key ] } @tickets ]);
    }
    $_->declared for $one, $two;
    $scripts->pass(5000, $one, $two);
    is $one->ask($name, 7, key => 'a'), 'queued', "$name: one more";
    is $one->ask($name, 8, key => 'c'), 'queued', "$name: new key";
    # that of all new keys is one of the tags
    is served($name), $tags ? '1 8 4 2 5 3 7' : '1 4 8 2 5 3 7',
        "$name: order kept, tags restored";
}
