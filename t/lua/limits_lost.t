#!/usr/bin/perl

# The limits of configurations are lost only together with the generation: the
# next hello states them again, and nothing is granted before that.

use lib 't/lib';
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;
my $one = $scripts->session('one')->configured('10', { api => 10 });
my $two = $scripts->session('two')->configured('20', { api => 20 });

$scripts->state->delete_shard;
is $two->ask('api', 1, limit => 20, literal => 1), 'resync', 'loss seen by ask';
is $two->beat->{status}, 'resync', 'and by a beat';
is $two->configure('20', 0, 1, api => 20)->{status}, 'resync',
    'limits not stated without hello';

my $hello = $two->hello(config => '20');
is $hello->{unknown}, 1, 'limits stated again';
is $hello->{recovery}, 5000, 'state recovers';
$two->state_limits('20', { api => 20 });
$two->declared;
is $two->ask('api', 2, limit => 20, literal => 1), 'recovering',
    'nothing granted meanwhile';
is $one->configured('10', { api => 10 })->sync('api', limit => 10,
    literal => 1)->{limit}, 10, 'the other one stated, too';

# sessions of the lost state are gone: none of them keeps a configuration
$scripts->session('three')->configured('5', { api => 5 });
$scripts->state->drop_generation;
$two->configured('20', { api => 20 });
is $two->sync('api', limit => 20, literal => 1)->{limit}, 20,
    'no limit of the lost state';
is $scripts->state->configurations->{ $one->name }, undef,
    'no session of it';

# a lost queue: the registry is still there, and so are its configurations
$one->configured('10', { api => 10 });
$scripts->meta('recover_until', 0);
$one->ask('api', $_, limit => 10, literal => 1) for 1 .. 11;
$scripts->state->delete_queue('api');
is $one->ask('api', 12, limit => 10, literal => 1), 'resync', 'queue lost';
is $one->hello(config => '10')->{unknown}, 0, 'limits still known';
is $two->hello(config => '20')->{unknown}, 0, 'those of others, too';
