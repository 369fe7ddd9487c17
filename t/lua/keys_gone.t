#!/usr/bin/perl

# A semaphore with nothing held and nothing waiting leaves no key; a session
# with nothing leaves no account.

use lib 't/lib';
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;
my $one = $scripts->session('one')->enter;
my $two = $scripts->session('two')->enter;
my @before = $scripts->all_keys;

$one->ask('api', 1);
$two->ask('api', 2);
$one->sync('api', release => 1);
is $scripts->state->account('api', $one->name), undef, 'no account left';
is $scripts->state->exists('api'), 1, 'no queue without waiters';

$two->sync('api', release => 1);
is_deeply [ $scripts->all_keys ], \@before, 'no keys left';

$_->ask('both', 1, limit => 2) for $one, $two;
$one->sync('both', release => 1);
is $scripts->state->account('both', $one->name), undef,
    'no account left beside another';
$two->sync('both', release => 1);

$one->ask('api', 3);
$two->ask('api', 4);
$one->sync('api', release => 1);
$two->sync('api', release => 1, cancel => [ [4] ]);
is_deeply [ $scripts->all_keys ], \@before, 'no keys after a late cancel';

$one->ask('api', 5, limit => 0);
$one->sync('api', check => [ [6] ], cancel => [ [7] ]);
$one->declare('api');
is_deeply [ $scripts->all_keys ], \@before, 'no keys created';

# new places follow those of the deleted semaphore
$one->ask('api', 8);
$one->ask('api', 9);
my $place = $one->{asked}{asked}{9}{place};
$one->sync('api', release => 1);
$one->sync('api', release => 1);
$scripts->advance(1000);
$one->ask('api', 10);
$one->ask('api', 11);
cmp_ok $one->{asked}{asked}{11}{place}, '>', $place, 'places continue';
