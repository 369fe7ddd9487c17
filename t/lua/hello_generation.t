#!/usr/bin/perl

# A session that knows a generation which Redis lacks shows that state was
# lost: recovery lasts one lease from the creation of the new generation.

use lib 't/lib';
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;
my $one = $scripts->session('one');
my $two = $scripts->session('two');

my $reply = $one->hello(gen => 99, fresh => 100);
is $reply->{gen}, 100, 'missing generation set';
is $reply->{recovery}, 5000, 'recovery of one lease';
$one->declared;
is $one->ask('api', 1), 'recovering', 'asks wait for recovery';

# a generation is replaced only when it is missing
$scripts->advance(2000);
$reply = $two->hello(gen => 99, fresh => 101);
is $reply->{gen}, 100, 'other generation kept';
cmp_ok $reply->{recovery}, '<=', 3000, 'recovery not restarted';
cmp_ok $reply->{recovery}, '>', 1000, 'recovery continues';

$scripts->advance(3000);
is $one->ask('api', 1), 'granted', 'recovery over';

{
    local $one->{gen} = 99;
    is $one->ask('api', 2, limit => 9), 'resync',
        'command with the lost generation rejected';
}

# a session from an older generation does not stop the others
$reply = $scripts->session('three')->hello(gen => 98);
is $reply->{recovery}, 0, 'no recovery for late stranger';

# a first start without recovery is extended by a session that knows a
# generation
$scripts->redis->cmd('FLUSHALL');
$one = $scripts->session('four')->enter(gen => 0);
is $one->ask('api', 1, limit => 9), 'granted', 'no recovery without memory';
$two = $scripts->session('five')->enter(gen => 99);
is $one->ask('api', 2, limit => 9), 'recovering', 'recovery with one memory';
