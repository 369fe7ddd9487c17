#!/usr/bin/perl

# A session that meets its own account of an older epoch begins at zero.

use lib 't/lib';
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;
my $one = $scripts->session('one')->enter;
my $two = $scripts->session('two')->enter;

$one->ask('api', 1, limit => 3);
$one->ask('api', 2, limit => 3);
$two->ask('api', 3, limit => 3);
$one->ask('api', 4, limit => 3);

$one->hello;
$one->declared;
my $reply = $one->sync('api', limit => 3, ask => [ [5] ]);
is_deeply $reply->{account}, [ 1, 0 ], 'account begins at zero';
is $reply->{in_use}, 2, 'old permits subtracted';
is $reply->{waiting}, 0, 'old ticket subtracted';
is $one->sync('api', release => 2)->{status}, 'resync', 'old permits void';
is $one->sync('api', release => 1)->{in_use}, 1, 'new permit released';

# before the session has declared
$one->ask('next', $_, limit => 3) for 1, 2;
$one->hello;
$reply = $one->sync('next', limit => 3, ask => [ [3] ]);
is_deeply $reply->{account}, [ 1, 0 ], 'undeclared account begins at zero';
is $reply->{in_use}, 1, 'its old permits subtracted';
