#!/usr/bin/perl

# A look at all accounts, some per call, while Redis restarts: the new process
# has its own order of fields, so the look begins anew and misses none.

use lib 't/lib';
use Dsem::Scripts;

my $t = Dsem::Test->new;
my $redis = $t->redis(args => [qw(--dbfilename dump.rdb)]);
my $scripts = Dsem::Scripts->new($t, redis => $redis);
my $one = $scripts->session('one')->enter;
my $state = $scripts->state;
my $dead = 2000;

$one->ask('api', 1, limit => 2);
$state->set_account('api', sprintf('dead:0:%x', $_), 1, 1, 0) for 1 .. $dead;
$state->set_figure('api', held => $dead + 1);
$scripts->meta(ended => $scripts->meta('ended') + $dead);
is $one->ask('api', 2, limit => 2), 'queued', 'all permits in use';

# half of them, so that the other order has as many before the cursor
my $syncs = 0;
$one->sync('api') while $state->held('api') > $dead / 2 && ++$syncs < 100;
my $half = $state->held('api');
cmp_ok $half, '<=', $dead / 2, 'half of the accounts dropped';

$redis->cmd('SAVE');
$redis->kill->start;
$scripts->{sha} = {};
is $state->held('api'), $half, 'Redis has its state again';
$one->hello;
$one->declare('api', held => 1, limit => 2, tickets => [ [2] ]);
$one->declared;

my $reply = $one->sync_all('api', 200, limit => 2);
is $reply->{more}, 0, 'all looked at';
is_deeply $reply->{granted}, [2], 'waiting ticket granted';
is $state->held('api'), 2, 'no permit of a dead session left';
is_deeply [ keys %{ $state->accounts('api') } ], [ $one->name ],
    'live account kept';

$scripts->done;
