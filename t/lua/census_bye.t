#!/usr/bin/perl

# A session that leaves during recovery, or is removed after its worker was
# killed, holds nothing any more: recovery does not wait for it.

use lib 't/lib';
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;

sub old {
    my ($node, $told) = @_;
    return $scripts->session($node), gen => 99, told => $told, age => 100;
}

my ($one, %one) = old('one', 3);
$one->enter(%one);
my ($two, %two) = old('two', 3);
$two->hello(%two);
my ($three, %three) = old('three', 3);
$three->enter(%three);
my $new = $scripts->session('new')->enter;

# declared, and gone
$three->bye;
is $one->ask('api', 1), 'recovering', 'second session missing';
$new->bye;
is $one->ask('api', 1), 'recovering', 'new session does not count';

# not declared
$one->listen;
$one->bye($two);
is_deeply [ $one->messages ], ['recovered'], 'bye ends recovery';
is $one->ask('api', 1), 'granted', 'permits granted';

# the bye of a session that has not connected proves nothing: it may have left
# before the loss, too
$scripts->redis->cmd('FLUSHALL');
($one, %one) = old('four', 2);
$one->enter(%one);
$one->bye($scripts->session('unseen'));
is $one->ask('api', 1), 'recovering', 'unseen session not counted';

# the last session of all
$scripts->redis->cmd('FLUSHALL');
($one, %one) = old('five', 1);
$one->hello(%one);
ok $scripts->state->recovering, 'only session missing';
$one->bye;
ok !$scripts->state->recovering, 'its bye ends recovery';
