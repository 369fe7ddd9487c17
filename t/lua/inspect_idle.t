#!/usr/bin/perl

# Beats tell idle permits while semaphores are inspected, and inspect shows
# them. Nothing of it outlives that for long.

use lib 't/lib';
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;
my $state = $scripts->state;
my $redis = $scripts->redis;
my ($one, $two) = map { $scripts->session($_)->enter } qw/one two/;
my %arg = (limit => 9, keep => 1);

$one->sync('api', %arg, ask => [ map { [ $_ ] } 1 .. 5 ]);
$one->sync('web', %arg, ask => [ [1], [2] ]);
$two->sync('api', %arg, ask => [ [1], [2] ]);
$two->sync('5', %arg, keep => 0, ask => [ [3], [4] ]);

is $one->beat('api 3')->{wanted}, 0, 'not wanted';
is $redis->cmd('EXISTS', $state->idle_key), 0, 'not stored';
is idle('api'), '0 0', 'none known';

$one->inspect([], watch => 4000);
is seconds($one->beat('api 3 web 1')), 4, 'wanted';
$scripts->advance(1000);
is seconds($two->beat('api 9 5 1')), 3, 'still wanted';
# -2: has expired
like $redis->cmd('PTTL', $state->idle_key), qr/^(?:[123]?\d{1,3}|-2)$/,
    'expires';
is idle('api'), '3 2', 'told, no more than held';
is idle('web'), '1 -', 'other name';
is idle('5'), '- 0', 'none where none is kept';

$one->beat('web 2');
is idle('api'), '0 2', 'no longer told';
is idle('web'), '2 -', 'told anew';
$one->beat('');
is idle('web'), '0 -', 'none any more';
is join(' ', sort { length $a <=> length $b } @{ $redis->cmd('HKEYS',
    $state->idle_key) }), join(' ', $two->name, $two->name . ' 5',
    $two->name . ' api'), 'no field left';

# 64 names, the longest
my @names = map { 'x' x 198 . $_ } 10 .. 73;
is $two->beat(join ' ', map { "$_ 1000000000" } @names)->{status}, 'ok',
    'many names';
is $redis->cmd('HLEN', $state->idle_key), 65, 'all stored';
is $two->beat(join ' ', map { "$_ 1" } @names, )->{status}, 'ok', 'again';
$two->beat('');
is $redis->cmd('EXISTS', $state->idle_key), 0, 'none left';

# fields of sessions that are gone
$two->beat('api 1');
$redis->cmd('HSET', $state->idle_key, map { ("gone:0:$_ api" => 1) } 1 .. 500);
$two->beat('api 1');
is $redis->cmd('HLEN', $state->idle_key), 2, 'begun anew';

# a beat needs none of it
$redis->cmd('SET', $state->idle_key, 'foreign');
is $two->beat('api 1')->{status}, 'ok', 'foreign key: beat goes on';
is $redis->cmd('TYPE', $state->idle_key), 'hash', 'foreign key replaced';
$redis->cmd('HSET', $state->idle_key, $two->name . ' api', 'x');
is idle('api'), '0 0', 'foreign value';
$redis->cmd('HSET', $state->idle_key, $two->name, 'x');
$two->beat('api 1');
is $redis->cmd('HGET', $state->idle_key, $two->name), 'api 1',
    'foreign list replaced';
for my $text ('nan', '-5', '', '9' x 400, 'x', 9e15) {
    $scripts->meta(watched => $text);
    is $two->beat('api 1')->{wanted}, 0, "watched '" . substr($text, 0, 9)
        . "': not wanted";
}

$scripts->done;

# some time passes while a test runs
sub seconds { return int(($_[0]{wanted} + 999) / 1000) }

# of both sessions
sub idle {
    my ($name) = @_;
    my $of = $one->inspect([ $name ])->{semaphores}[0]{accounts};
    return join ' ', map { $of->{ $_->name } ? $of->{ $_->name }{idle} : '-' }
        $one, $two;
}
