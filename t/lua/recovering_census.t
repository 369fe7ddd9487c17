#!/usr/bin/perl

# Recovery ends when all sessions that were registered before the loss have
# declared. New sessions, and sessions that have only sent hello, do not count.

use lib 't/lib';
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;

# as if registered in a lost state, with so many others
sub old {
    my ($node, $told) = @_;
    return $scripts->session($node), gen => 99, told => $told, age => 100;
}

# new sessions: without a generation, and with that of their node
my $new = $scripts->session('new')->enter;
my $next = $scripts->session('next')->enter(gen => 99);
is $next->ask('api', 1), 'recovering', 'recovery has begun';

my ($one, %one) = old('one', 2);
my $reply = $one->hello(%one);
is $reply->{recovery}, $scripts->meta('created') + 5000
    - $scripts->meta('clock'), 'one lease at most';
is $reply->{live}, 4, 'missing and new sessions in the number';
cmp_ok $one->declared->{recovery}, '>', 3000, 'one session missing';

# the largest number counts
my ($two, %two) = old('two', 3);
$two->hello(%two);
cmp_ok $two->declared->{recovery}, '>', 3000, 'two of three declared';
is $two->beat->{live}, 5, 'number of missing and new sessions';
cmp_ok $two->beat->{recovery}, '>', 3000, 'remaining time in the beat';

# new sessions that connect again still do not count
$_->enter for $new, $next;
is $one->ask('api', 2), 'recovering', 'new sessions not counted';

my ($three, %three) = old('three', 3);
$_->listen for $one, $new;
cmp_ok $three->hello(%three)->{recovery}, '>', 3000, 'hello is not enough';
$three->declare('api', held => 1, limit => 2);
is_deeply [ $one->messages ], [], 'no message before the end';
is $three->declared->{recovery}, 0, 'last one ends recovery';
is_deeply [ map { $_->messages } $one, $new ], [ ('recovered') x 2 ],
    'sessions notified';

is $one->ask('api', 3, limit => 2), 'granted', 'permits granted';
is $two->ask('api', 4, limit => 2), 'queued', 'declared permits counted';
is_deeply [ @{ $two->beat }{qw/live recovery/} ], [ 5, 0 ], 'live sessions';
cmp_ok $scripts->meta('clock'), '<', $scripts->meta('created') + 3000,
    'before the end of the lease';

# a session that never comes
$scripts->redis->cmd('FLUSHALL');
($one, %one) = old('four', 2);
$one->enter(%one);
$scripts->pass(4000, $one);
is $one->ask('api', 1), 'recovering', 'missing session waited for';
$scripts->pass(1000, $one);
is $one->ask('api', 1), 'granted', 'one lease at most';

# a number alone is no proof of a loss
$scripts->redis->cmd('FLUSHALL');
$one = $scripts->session('five')->enter(told => 3, age => 100);
is $one->ask('api', 1), 'granted', 'first start without recovery';
