#!/usr/bin/perl

# An acquire without a ticket charges a key: its tickets that wait, and the next
# ones, go so far behind. They stay first come, first served.

use lib 't/lib';
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;
my $state = $scripts->state;
my $one = $scripts->session('one')->enter;

sub queue { return join ' ', map { (split)[2] } $scripts->queue('api') }

sub charge {
    my ($session, $cost, $key, %arg) = @_;
    return $session->sync(delete $arg{name} // 'api', %arg,
        ask => [ [ 0, 1, 0, 0, $cost, $key ], @{ $arg{ask} // [] } ]);
}

is charge($one, 1000, 'a')->{waiting}, 0, 'nothing waits';
is $state->exists('api'), 0, 'nothing is remembered';

$one->ask('api', 1, key => 'x');
$one->ask('api', $_, queue => 99, key => 'a') for 2 .. 5;
$one->ask('api', $_, queue => 99, key => 'b', cost => 20_000) for 6 .. 8;
is queue(), '2 6 3 4 5 7 8', 'a is cheap';
my ($before) = $state->tags('api');
my $reply = charge($one, 30_000, 'a');
is $reply->{asked}{0}{verdict}, 'refused', 'no ticket';
is $reply->{waiting}, 7, 'the same tickets';
is queue(), '6 7 2 3 4 5 8', 'behind tickets of the other key';
is +($state->tags('api'))[0]{a}, $before->{a} + 240_000, 'and the next ones';
is_deeply charge($one, 50_000, 'a', release => 1, ask => [
    [ 9, 1, 0, 99, 1000, 'a' ] ])->{granted}, [6], 'before the head is served';
is queue(), '7 8 2 3 4 5 9', 'a ticket of the same call is behind them';
$one->ask('api', 10, queue => 99);
is queue(), '7 8 2 3 4 5 9 10', 'without a key: behind all';

# tickets of a silent session, and a key that is not known
$one->bye;
$one = $scripts->session('one')->enter;
my $two = $scripts->session('two')->enter;
$one->ask('api', 1, key => 'x');
$two->ask('api', $_, queue => 99, key => 'a') for 2 .. 3;
$scripts->advance(2500);
$one->beat;
$one->sync('api', release => 1, fair => 1);
is $state->figure('api', 'parked'), 2, 'parked';
charge($one, 30_000, 'a');
$one->ask('api', 4, queue => 99, key => 'b');
$one->ask('api', 5, queue => 99, key => 'b');
charge($one, 30_000, 'c');
$one->ask('api', 6, queue => 99, key => 'c');
$two->beat;
$two->sync('api', fair => 1);
is queue(), '5 2 6 3', 'they are moved, too';

# a session that reconnects knows the places of before
my %place = map { (split)[2] => $state->places('api')->{$_} }
    keys %{ $state->places('api') };
charge($two, 30_000, 'b');
is queue(), '2 6 5 3', 'behind two others';
$one->hello;
$one->declare('api', tickets => [ [ 5, 1, $place{5}, 1, 1000, 'b' ],
    [ 6, 1, $place{6}, 1, 1000, 'c' ] ]);
$one->declared;
is queue(), '2 6 5 3', 'where it was charged to';

# the only ticket leaves; and a queue of another type
$one->ask('alone', 7, key => 'x');
$one->ask('alone', 8, key => 'a', queue => 9);
$one->sync('alone', fair => 1, cancel => [ [ 8, 1, 1000, 'a' ] ],
    ask => [ [ 0, 1, 0, 0, 30_000, 'a' ] ]);
is $state->waiting('alone'), 0, 'nothing waits any more';
is_deeply [ $state->tags('alone') ], [ {}, undef ], 'not charged';
$one->ask('alone', 9, key => 'a', queue => 9);
$scripts->redis->cmd('SET', $state->queue_key('alone'), 'x');
is $one->sync('alone', release => 1, ask => [ [ 0, 1, 0, 0, 30_000, 'a' ] ])
    ->{status}, 'broken', 'a broken queue';

# more tickets than one call moves: it goes no farther, and a full queue drops
# the last one, whose key has paid
my $silent = $scripts->session('silent')->enter;
$one->ask('many', 1, key => 'x');
$silent->ask('many', 2, key => 's', queue => 9);
$scripts->advance(2500);
$_->beat for $one, $two;
$one->sync('many', fair => 1, release => 1);
is $state->figure('many', 'parked'), 1, 'many tickets: one is parked';
$one->ask('many', 3, key => 'x');
$one->sync('many', ask => [ map { [ $_, 1, 0, 999, 1000, 'a' ] } 10 .. 610 ]);
my ($paid) = $state->tags('many');
my @before = $scripts->queue('many');
$reply = $one->sync('many', ask => [ map({ [ 0, 1, 0, 0, 80_000, 'a' ] } 1, 2),
    [ 4, 1, 0, scalar @before, 1000, 'b' ] ]);
is $reply->{asked}{4}{verdict}, 'queued', 'queued instead of the last one';
is_deeply $reply->{dropped}, [610], 'which is dropped';
is +($state->tags('many'))[0]{a}, $paid->{a} + 2 * 640_000,
    'and its key pays for it';

# no request states the limit of its session: it may be that of hours ago
$one->ask('slow', 1, limit => 50, key => 'slow');
$two->ask('slow', $_, limit => 1, queue => 9, key => 'b') for 2 .. 4;
$reply = charge($one, 30_000, 'slow', limit => 50);
is_deeply [ @$reply{qw/limit waiting granted/} ], [ 1, 3, [] ],
    'the limit of the last request is in force';
$reply = charge($one, 30_000, 'slow', limit => 2,
    ask => [ [ 5, 1, 0, 9, 1000, 'b' ] ]);
is $reply->{limit}, 2, 'until there is another one';

# a parked ticket that is moved comes back behind all others
my $late = $scripts->session('late')->enter;
$one->ask('far', 1, key => 'x');
$late->ask('far', 2, queue => 9, key => 'a');
$scripts->advance(2500);
$_->beat for $one, $two;
$one->sync('far', fair => 1, release => 1);
$one->ask('far', 3, key => 'x');
$one->ask('far', 4, queue => 9, key => 'b');
charge($one, 30_000, 'a', name => 'far');
$late->beat;
$late->sync('far', fair => 1);
$reply = $one->sync('far', ask => [ [ 5, 1, 0, 9, 1000, 'b' ] ]);
is join(' ', map { (split)[2] } $scripts->queue('far')), '4 5 2',
    'far behind: a later ticket of another key';
is $reply->{asked}{5}{position}, 2, 'far behind: its position';

# while the state recovers not all tickets are there
$scripts->redis->cmd('FLUSHALL');
$_->hello for $one, $two;
$two->declare('api', tickets => [ [ 2, 1, 1000, 1, 1000, 'a' ] ]);
$two->declared;
charge($two, 30_000, 'a');
is +($state->places('api'))->{ $two->name . ' 2 2 1 a' }, 1000,
    'not charged while the state recovers';
$one->declared;
