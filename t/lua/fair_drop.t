#!/usr/bin/perl

# A full queue drops its last ticket for one that comes before it. The session
# of the dropped ticket is told by its next sync, whatever that is for.

use lib 't/lib';
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;
my $state = $scripts->state;
my $one = $scripts->session('one')->enter;
my $two = $scripts->session('two')->enter->listen;
my $three = $scripts->session('three')->enter;
my %queue = (queue => 4);

# A full queue of tickets 1 to 4 of a key of session two.
sub fill {
    my ($name, @arg) = @_;
    $one->ask($name, 99, key => 'x');
    $two->ask($name, $_, %queue, key => 'noisy', @arg) for 1 .. 4;
}

sub tickets { return join ' ', map { (split)[2] } $scripts->queue($_[0]) }

fill('api');
is $two->ask('api', 5, %queue, key => 'noisy'), 'refused', 'last one refused';
my $before = $scripts->dump;
is $two->ask('api', 5, %queue, key => 'noisy'), 'refused', 'again';
is $scripts->dump, $before, 'a refused one changes nothing';
is $one->ask('api', 6, %queue, key => 'quiet'), 'queued', 'quiet key queued';
is $one->{asked}{waiting}, 4, 'no longer queue';
is $one->{asked}{asked}{6}{position}, 2, 'behind the first of the other key';
is tickets('api'), '1 6 2 3', 'last ticket dropped';
is_deeply [ $two->messages ], ['drop api 1'], 'message';
is $state->account('api', $two->name)->{waiting}, 3, 'counted at once';

# told once, by any sync
my $reply = $two->sync('api', fair => 1);
is_deeply [ $reply->{dropped}, $reply->{account} ], [ [4], [ 0, 3 ] ], 'told';
is_deeply $two->sync('api', fair => 1)->{dropped}, [], 'told once';
my ($tags) = $state->tags('api');
is $tags->{noisy} - $state->places('api')->{ $two->name . ' 1 3 1 noisy' },
    8000, 'tag given back';

# of the calling session: by the same call
is $two->ask('api', 7, %queue, key => 'other'), 'queued', 'own one dropped';
is_deeply $two->{asked}{dropped}, [3], 'told at once';
is_deeply [ $two->messages ], [], 'without a message';

# a check, and a cancel
$one->ask('api', 8, %queue, key => 'more');
$reply = $two->sync('api', check => [ [ 2, 1, 9, 'noisy' ],
    [ 1, 1, 9, 'noisy' ], [ 7, 1, 9, 'other' ] ]);
is_deeply [ @$reply{qw/checked account/} ],
    [ { 1 => 1, 2 => 2, 7 => 1 }, [ 0, 2 ] ], 'check';
is $one->ask('api', 9, %queue, key => 'y'), 'refused',
    'behind all of other keys';
$two->ask('api', 10, queue => 5, key => 'noisy');
is $one->ask('api', 11, queue => 5, class => -1, key => 'z'), 'queued',
    'before all';
is tickets('api'), '11 1 6 7 8', 'the last one dropped';
is $two->sync('api', cancel => [ [ 10, 1, 9, 'noisy' ] ])->{cancelled}{10}, 1,
    'cancel';

# several places at once: of a shorter queue
fill('web');
is $one->ask('web', 12, queue => 2, key => 'quiet'), 'queued', 'shorter queue';
is tickets('web'), '1 12', 'as many dropped';
is_deeply [ sort @{ $two->sync('web', fair => 1)->{dropped} } ], [ 2, 3, 4 ],
    'all told';
is $one->ask('web', 13, queue => 0, key => 'quiet'), 'refused', 'no queue';

# classes: the worst one first, whatever the keys
fill('cpu', class => 1);
is $one->ask('cpu', 12, %queue, key => 'noisy'), 'queued', 'better class';
is tickets('cpu'), '12 1 2 3', 'worse class dropped';
is $one->ask('cpu', 13, %queue, key => 'a', class => 2), 'refused',
    'worst class refused';

# a ticket without key is dropped, too; and does not drop
fill('mix');
$two->sync('mix', cancel => [ [ 4, 1, 9, 'noisy' ] ]);
$three->ask('mix', 14, %queue);
is $three->ask('mix', 15, %queue), 'refused', 'no key: refused';
is $one->ask('mix', 16, %queue, key => 'quiet'), 'queued', 'key: queued';
is_deeply $three->sync('mix')->{dropped}, [14], 'no key: dropped';

# a session that has ended needs not be told
fill('end');
$two->bye;
is $one->ask('end', 16, %queue, key => 'quiet'), 'queued',
    'dead tickets make room';

# 32 that were not told, then no more
$two = $scripts->session('two')->enter;
$one->ask('many', 99, key => 'x');
$two->sync('many', ask => [ map { [ $_, 1, 0, 100, 1000, 'noisy' ] }
    1 .. 40 ]);
my @verdicts = map { $one->ask('many', 100 + $_, queue => 40, key => "k$_") }
    1 .. 34;
is_deeply [ map { $_ eq 'queued' } @verdicts ], [ (1) x 32, '', '' ],
    '32 are dropped untold';
$reply = $two->sync('many', fair => 1);
is @{ $reply->{dropped} }, 32, 'all told';
is $one->ask('many', 200, queue => 40, key => 'k'), 'queued', 'then more';

# a queue that is much too long: none is dropped in vain
$one->ask('long', 99, key => 'x');
$two->sync('long', ask => [ map { [ $_, 1, 0, 100, 1000, 'noisy' ] }
    1 .. 80 ]);
is $one->ask('long', 100, queue => 10, key => 'quiet'), 'queued',
    'much shorter queue';
is @{ $two->sync('long', fair => 1)->{dropped} }, 32, 'for 32 that are told';
is $state->waiting('long'), 49, 'a queue that gets shorter';

# one call: each is queued, and dropped by the next one
$one->ask('call', 99, key => 'x');
$reply = $two->sync('call', ask => [
    map { [ $_, 1, 3 - $_, 1, 1000, 'noisy' ] } 1 .. 4 ]);
is_deeply [ sort @{ $reply->{dropped} } ], [ 1, 2, 3 ], 'dropped in the call';
is $state->waiting('call'), 1, 'one waits';

# after a reconnect: not queued again, in whichever part of the account
$one->ask('call', 98, queue => 1, class => -2, key => 'x');
$two->hello;
$reply = $two->declare('call', tickets => [
    [ 4, 1, -1e13 + 1, 1, 1000, 'noisy' ], [ 5, 1, 0, 1, 1000, 'noisy' ] ]);
is_deeply $reply->{places}, [ 0, 0 ], 'declared: dropped';
my @part = (more => 1, tickets => [ [ 4, 1, -1e13 + 1, 1, 1000, 'noisy' ] ]);
is_deeply $two->declare('call', @part)->{places}, [0], 'in another part';
$two->hello;
is_deeply $two->declare('call', @part)->{places}, [0], 'in another epoch';
is_deeply $two->sync('call', fair => 1)->{dropped}, [], 'not told again';
