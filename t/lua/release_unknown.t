#!/usr/bin/perl

# The release of permits that are not held is a protocol error: the session
# must send hello, and nothing of the command is written.

use lib 't/lib';
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;
my $one = $scripts->session('one')->enter;
my $two = $scripts->session('two')->enter;

$one->ask('api', 1, limit => 2);
$two->ask('api', 2, limit => 2);
$two->ask('api', 3, limit => 2);
my $before = $scripts->dump;

is $one->sync('api', release => 2, ask => [ [4] ], limit => 9)->{status},
    'resync', 'excess release rejected';
is $two->sync('api', release => 2, cancel => [ [3] ])->{status}, 'resync',
    "other session's permit rejected";
is $one->sync('web', release => 1, ask => [ [5] ])->{status}, 'resync',
    'unknown name rejected';
is $scripts->dump, $before, 'nothing written';
is $one->sync('api', release => 1)->{in_use}, 2, 'held permits still released';
