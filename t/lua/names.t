#!/usr/bin/perl

# Names are used as the worker has encoded them. They cannot reach another key,
# break the hash tag, or change a message.

use lib 't/lib';
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;
my $one = $scripts->session('one')->enter->listen;
my $two = $scripts->session('two')->enter;

my @names = ('a', 'a:b', 'held', 'waiting', 'queue', 'sessions', '%00%0d%0a',
    '%7b1%7d', '...', 's:q', '%25s%25d', 'x' x 64 . '~' . 'f' x 40, '0');

for my $name (@names) {
    my $short = substr $name, 0, 20;
    $two->ask($name, 1, limit => 1);
    $one->ask($name, 2, limit => 1);
    is $two->sync($name, release => 1)->{in_use}, 1, "$short: handed on";
    is_deeply [ $one->messages ], ["grant $name 1 1 1 2"], "$short: message";
}

is_deeply [ sort $scripts->state->names ], [ sort @names ],
    'one key per name, names unchanged';

$scripts->order('held', 7);
is $one->sync('held')->{limit}, 7, 'order by name';
is $one->sync('waiting')->{limit}, 1, 'only this name';

# node names with characters that are special in Lua patterns
for my $node ('a.b-c_d', '...', '-', 'x' x 255) {
    my $odd = $scripts->session($node)->enter->listen;
    $two->ask('odd', 1);
    $odd->ask('odd', 2);
    $two->sync('odd', release => 1);
    is_deeply [ $odd->messages ], ['grant odd 1 1 1 2'],
        'node ' . substr $node, 0, 8;
    $odd->sync('odd', release => 1);
}
