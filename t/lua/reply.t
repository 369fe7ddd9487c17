#!/usr/bin/perl

# Every reply of every script begins with session, epoch and number, whatever
# the outcome. All that follows are integers.

use lib 't/lib';
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;
my $one = $scripts->session('one');
my $two = $scripts->session('two')->enter;
my %argv = (
    hello => [ 0, 5, 5000 ],
    beat => [ 0, 5000, '' ],
    order => [ 'api', 7, '=' ],
    configure => [ 'a1', 0, 1, 1, 'api', 3 ],
    bye => [ $two->name, 5000 ],
    declared => [],
    declare => [ 3, 2, 0, 2, 7, 1, 42, 1, 8, 1, 0, 1 ],
    # a cancel, two acquires, a check
    sync => [ '0 3 1 1 1 2 1', 'api', '5 1', '6 1 0 9', '9 1 -8 9', '6 1' ],
);

sub reply {
    my ($script, $epoch, $number, @argv) = @_;
    my $reply = $scripts->run($script, [ $scripts->keys_of($script, 'api') ],
        $one->name, $script eq 'sync' ? ("$epoch $number " . shift @argv, @argv)
            : ($epoch, $number, @argv));
    is_deeply [ @$reply[0 .. 2] ], [ $one->name, $epoch, $number ],
        "$script: session, epoch, number";
    is scalar(grep { !/^-?\d+$/ } @$reply[2 .. $#$reply]), 0,
        "$script: whole numbers";
    return $Dsem::Scripts::STATUS[ $reply->[3] ], scalar @$reply;
}

for my $script (qw/sync declare declared beat configure order/) {
    is_deeply [ reply($script, 1, 9007199254740992, @{ $argv{$script} }) ],
        [ 'resync', 4 ], "$script: refused";
}

my $gen = $two->gen;
my @hello = ($gen, 5, 5000, 0, 0, 'a1', 'f' x 16, 1, 0, 5000, 0);
is_deeply [ reply('hello', 3, 0, @hello) ], [ 'ok', 13 ], 'hello: ok';
is_deeply [ reply('hello', 3, 1, @hello) ], [ 'stale', 4 ], 'hello: stale';
is_deeply [ reply('declare', 3, 2, @{ $argv{declare} }) ], [ 'ok', 7 ],
    'declare: a place for each ticket';
is_deeply [ reply('configure', 3, 2, @{ $argv{configure} }) ], [ 'ok', 4 ],
    'configure: ok';
is_deeply [ reply('declared', 3, 3) ], [ 'ok', 5 ], 'declared: ok';
is_deeply [ reply('beat', 3, 4, $gen, 5000, '') ], [ 'ok', 14 ], 'beat: ok';

$argv{sync}[0] = "$gen 3 1 1 1 2 1";
is_deeply [ reply('sync', 3, 5, @{ $argv{sync} }) ],
    [ 'ok', 12 + 1 + 2 * 3 + 1 + 1 ], 'sync: ok, one granted';
is_deeply [ reply('sync', 3, 6, "$gen 4 1 0 0 1 0", 'api', '11 1 0 9') ],
    [ 'ok', 12 + 3 + 1 ], 'sync: second one granted';

is_deeply [ reply('order', 3, 7, 'api', 3, '=') ], [ 'ok', 15 ], 'order: ok';
is_deeply [ reply('order', 3, 7, 'api', '-', '=') ], [ 'ok', 15 ],
    'order: ended';

$scripts->redis->cmd('SET', $scripts->state->semaphore_key('api'), 'foreign');
$argv{sync}[0] = "$gen 3 1 1 1 2 1";
is_deeply [ reply('sync', 3, 7, @{ $argv{sync} }) ], [ 'broken', 5 ],
    'sync: broken';
is_deeply [ reply('bye', 3, 8, $one->name, 5000) ], [ 'ok', 5 ], 'bye: ok';
is_deeply [ reply('hello', 4, 9, @hello) ], [ 'gone', 4 ], 'hello: gone';
