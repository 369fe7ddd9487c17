#!/usr/bin/perl

# Permits idle at their sessions are recalled as soon as a ticket waits: from
# the largest holders first, until the demand is covered. Each holder is
# notified once until its next command, and again by checks: messages may be
# lost. Meanwhile no ask is refused for a full queue.

use lib 't/lib';
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;
my ($one, $two, $three, $asks) =
    map { $scripts->session($_)->enter->listen } qw/one two three asks/;
my %arg = (limit => 6, queue => 1);

sub told { return map { [ $_->messages ] } $one, $two, $three }

# sessions that may keep permits, and those that were asked to release them
sub keepers {
    return join ' ', @{ $scripts->state->figures($_[0]) }{qw/active recalled/};
}

sub recall { return 'recall api ' . $_[0]->epoch }

# session one keeps three permits, two keeps two, three uses its own

$one->sync('api', %arg, keep => 1, ask => [ map { [ $_ ] } 1 .. 3 ]);
$two->sync('api', %arg, keep => 1, ask => [ [4], [5] ]);
my $reply = $three->sync('api', %arg, ask => [ [6] ]);
is $reply->{may_keep}, 1, 'permits may stay idle';
is keepers('api'), '2 0', 'two sessions keep permits';

is $asks->ask('api', 1, %arg), 'queued', 'ask queued at limit';
is $asks->{asked}{may_keep}, 0, 'no permits may stay idle';
is_deeply [ told() ], [ [ recall($one) ], [], [] ],
    'largest holder recalled';
is keepers('api'), '1 1', 'one keeper remaining';

# more tickets than the queue has places: others may have idle permits

is $asks->ask('api', 2, %arg), 'queued', 'second ask queued';
is_deeply [ told() ], [ [], [ recall($two) ], [] ],
    'next holder recalled once';
is $asks->ask('api', $_, %arg), 'queued', "ask $_ queued"
    for 3 .. 7;
is $asks->ask('api', 8, %arg), 'refused', 'queue bound reached';

# a session without idle permits reports this, and is no longer counted as a
# holder

$reply = $one->sync('api', %arg);
is keepers('api'), '0 1', 'first session no longer keeps';
is $asks->ask('api', 9, %arg), 'refused', 'queue bound unchanged';
$two->sync('api', %arg, release => 2);
is keepers('api'), '0 0', 'no session keeps';
is_deeply [ $asks->messages ], [
    sprintf 'grant api %d 6 6 1 2', $asks->epoch ], 'head notified of grant';
is_deeply [ told() ], [ [], [], [] ], 'no further recall';

# while tickets wait, the reply forbids a session to keep

$reply = $one->sync('api', %arg, keep => 1, release => 1);
is $reply->{may_keep}, 0, 'keeping forbidden while queued';
is_deeply [ told() ], [ [], [], [] ], 'no recall beside reply';
$one->sync('api', %arg, release => 2);

# a session that keeps permits itself may have those of others

$_->sync('own', %arg, keep => 1, ask => [ map { [ $_ ] } 1 .. 3 ])
    for $one, $two;
is $one->ask('own', 4, %arg, keep => 1, queue => 0), 'queued',
    'queued for permits of another one';
is_deeply [ told() ], [ [], [ 'recall own 1' ], [] ], 'other one recalled';
$one->sync('own', %arg, release => 3, cancel => [ [4] ]);
$two->sync('own', %arg, release => 3);

$_->sync('own', %arg, keep => $_ == $one, ask => [ map { [ $_ ] } 1 .. 3 ])
    for $one, $two;
is $one->ask('own', 4, %arg, keep => 1, queue => 0), 'refused',
    'not for its own ones';
$_->sync('own', %arg, release => 3) for $one, $two;

# the message was lost: a check recalls again, until the holder has replied

$one->sync('lost', limit => 1, keep => 1, ask => [ [1] ]);
$asks->ask('lost', 1, limit => 1, queue => 9);
is_deeply [ told() ], [ [ 'recall lost 1' ], [], [] ], 'holder recalled';
$asks->ask('lost', 2, limit => 1, queue => 9);
is_deeply [ told() ], [ [], [], [] ], 'not by another ask';
for my $check (1, 2) {
    $reply = $asks->sync('lost', limit => 1, check => [ [1], [2] ]);
    is_deeply [ told() ], [ [ 'recall lost 1' ], [], [] ],
        "check $check: recalled again";
    is $reply->{more}, 0, "check $check: no work is left";
}
is keepers('lost'), '0 1', 'counted once';
$one->sync('lost', limit => 1, keep => 1, release => 1);
$asks->sync('lost', limit => 1, check => [ [2] ]);
is_deeply [ told() ], [ [], [], [] ], 'not once it has replied';
$asks->sync('lost', limit => 1, release => $_, cancel => [ ([2]) x !$_ ])
    for 0, 1;

# none is recalled: a check looks at no account

$asks->sync('none', limit => 1, ask => [ [1] ]);
$asks->ask('none', 2, limit => 1, queue => 9);
is $scripts->calls(sub {
    $asks->sync('none', limit => 1, check => [ [2] ]) })->{hgetall}, undef,
    'check: no accounts read';
$asks->sync('none', limit => 1, release => $_, cancel => [ ([2]) x !$_ ])
    for 0, 1;

# an account is lost that kept permits: it is not looked for again and again

$one->sync('keys', limit => 2, keep => 1, ask => [ [1] ]);
$asks->sync('keys', limit => 2, ask => [ [1] ]);
$scripts->redis->cmd('HDEL', $scripts->state->semaphore_key('keys'), $one->name);
is $asks->ask('keys', 2, limit => 2, queue => 9), 'queued', 'a ticket waits';
is keepers('keys'), '1 0', 'a keeper that is lost';
is $asks->sync('keys', limit => 2, check => [ [2] ])->{more}, 0,
    'no work is left';

# dead sessions do not keep

my $dead = $scripts->session('dead')->enter;
$dead->sync('web', %arg, keep => 1, ask => [ map { [ $_ ] } 1 .. 6 ]);
is keepers('web'), '1 0', 'dead session keeps permits';
$one->bye($dead);
is $asks->ask('web', 1, %arg), 'granted', 'dead permits granted';
is keepers('web'), '0 0', 'no session keeps';

# an operator's order forbids keeping as well

$one->sync('ops', %arg, keep => 1, ask => [ [1] ]);
$scripts->order('ops', undef, 1);
is $one->sync('ops', %arg, keep => 1)->{may_keep}, -1,
    'paused: keeping forbidden';
$scripts->order('ops', 0, 0);
is $one->sync('ops', %arg, keep => 1)->{may_keep}, 0,
    'limit 0: keeping forbidden';
$scripts->order('ops', 3, 0);
is $one->sync('ops', %arg, keep => 1)->{may_keep}, 1, 'keeping allowed again';

# the queue is longer by no more than the limit in force

$one->sync('low', %arg, keep => 1, ask => [ map { [ $_ ] } 1 .. 6 ]);
$scripts->order('low', 2, 0);
is $asks->ask('low', $_, %arg), 'queued', "low limit: ask $_ queued" for 1 .. 3;
is $asks->ask('low', 4, %arg), 'refused', 'low limit: queue bound reached';
