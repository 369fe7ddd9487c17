#!/usr/bin/perl

# queue=0 decides at once; limit 0 grants nothing; a request heavier than the
# limit is refused at once.

use lib 't/lib';
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;
my $one = $scripts->session('one')->enter;

is $one->ask('api', 1, queue => 0), 'granted', 'granted without a queue';
is $one->ask('api', 2, queue => 0), 'refused', 'refused without a queue';
is $one->ask('api', 3, queue => 1), 'queued', 'queued by another line';
is $one->ask('api', 4, queue => 0), 'refused', 'no place behind';

is $one->ask('zero', 1, limit => 0, queue => 5), 'refused',
    'limit zero rejected';
is $one->ask('heavy', 1, limit => 3, weight => 4), 'refused',
    'heavy ask rejected';
is $one->ask('heavy', 2, limit => 3, weight => 3), 'granted',
    'exact weight granted';
is $one->ask('heavy', 3, limit => 3, weight => 3), 'queued',
    'full weight queued';

$one->sync('heavy', release => 3, cancel => [ [ 3, 3 ] ]);
is $scripts->state->exists('zero'), 0, 'rejected asks leave nothing';
is $scripts->state->exists('heavy'), 0, 'no keys left';
