#!/usr/bin/perl

# A user that may not call INFO: the process is unknown, nothing recovers, and
# the id that other sessions have stored stays.

use lib 't/lib';
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;
my $t = $scripts->t;
my $one = $scripts->session('one')->enter;
my $run = $scripts->meta('run');
like $run, qr/^[0-9a-f]{40}$/, 'run id stored';
{
    no warnings 'portable';
    is $one->hello->{process}, hex substr($run, 0, 12), 'process known';
}
$one->declared;

$scripts->redis->cmd('ACL', 'SETUSER', 'limited', 'on', 'nopass', '~*', '&*',
    '+@all', '-info');
my $redis = $t->connect;
$redis->cmd('AUTH', 'limited', 'x');
my $limited = Dsem::Scripts->new($t, redis => $redis, sessions => 100);
ok !eval { $redis->cmd('INFO'); 1 }, 'INFO denied';

my $two = $limited->session('two');
my $reply = $two->hello;
is $reply->{status}, 'ok', 'hello accepted';
is $reply->{process}, 0, 'process unknown';
is $reply->{recovery}, 0, 'no recovery';
$two->declared;
is $scripts->meta('run'), $run, 'run id kept';
is $one->hello->{recovery}, 0, 'no recovery for others';
$one->declared;
is $two->ask('api', 1), 'granted', 'permits granted';

# another process is seen by those that may know
$scripts->meta(run => 'f00');
is $two->hello->{recovery}, 0, 'not seen without INFO';
cmp_ok $one->hello->{recovery}, '>', 0, 'seen with INFO';

# nobody knows
$scripts->redis->cmd('FLUSHALL');
my $three = $limited->session('three')->enter;
is $three->hello->{recovery}, 0, 'no recovery';
is $scripts->meta('run'), undef, 'no run id';
