#!/usr/bin/perl

# A beat proves that the subscription works: it is published to the session's
# own channel, and to no other.

use lib 't/lib';
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;
my $one = $scripts->session('one')->enter->listen;
my $two = $scripts->session('two')->enter->listen;

$one->beat;
is_deeply [ $one->messages ], ["beat $one->{number}"], 'own beat';
is_deeply [ $two->messages ], [], 'no beat of others';

is $one->beat->{published}, 1, 'reply: published';
is_deeply [ $one->messages ], ["beat $one->{number}"], 'and received';

# the caller's user may do all but that
my $admin = $scripts->redis->client;
$scripts->redis->cmd(qw(ACL SETUSER default -publish));
my $denied = $one->beat;
$admin->cmd(qw(ACL SETUSER default +publish));
is $denied->{status}, 'ok', 'not permitted: beat accepted';
is $denied->{published}, 0, 'not permitted: reply tells';

$one->{epoch} = 7;
$one->beat;
is_deeply [ $one->messages ], [], 'refused beat silent';
