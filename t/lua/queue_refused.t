#!/usr/bin/perl

# A command on the queue that Redis refuses for another reason than the type of
# the key ends the script with that error, and nothing is written.

use lib 't/lib';
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;
my $redis = $scripts->redis;
my $one = $scripts->session('one')->enter;

$one->ask('api', $_) for 1, 2;
$redis->cmd(qw/ACL SETUSER limited on nopass ~* &* +@all -zmscore/);
my $before = $scripts->dump;
$redis->cmd(qw/AUTH limited x/);
eval { $one->sync('api', check => [ [2] ]) };
like $@, qr/can't run this command|NOPERM|ACL failure/, 'error of the command';
$redis->cmd(qw/AUTH default x/);
is $scripts->dump, $before, 'nothing written';
is $one->sync('api', check => [ [2] ])->{checked}{2}, 1, 'ticket still queued';
