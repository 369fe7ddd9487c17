#!/usr/bin/perl

# A limit that is not used is not raised, and not probed.

use lib 't/lib';
use Dsem::Auto;
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;
my $state = $scripts->state;
my $one = $scripts->session('one')->configured('a', { api => '20=1-1000',
    full => '20=1-1000', most => '20=1-1000', peak => '10=1-1000',
    wait => '2=1-1000', idle => '10=1-1000' });

my $auto = Dsem::Auto->new($scripts, 'api', [ $one ], used => 0.3);
my $reply = $auto->run(20);
is "@$reply{qw/found reason/}", '20 unused', 'neither raised nor lowered';
is_deeply [ grep { $_ != 20 } $auto->trace ], [], 'at no time';
$auto->set(used => 1);
ok $auto->until(sub { $_[0]{found} > 20 }, 10), 'used: raised';

# half of the permits are enough to compare limits, not to raise the limit: the
# backend has no more requests with a higher one
$auto = Dsem::Auto->new($scripts, 'most', [ $one ], used => 0.7);
my @kept = map { $auto->step->{kept} } 1 .. 300;
cmp_ok scalar(grep { $_ > 20 } $auto->trace), '>', 0, 'a higher one is tried';
is scalar(grep { $_ > 20 } @kept), 0, 'not reached: not raised';

# little traffic
$auto = Dsem::Auto->new($scripts, 'full', [ $one ], used => 0.001);
$reply = $auto->until(sub { $_[0]{reason} eq 'unused' }, 30);
is $reply->{found}, 20, 'few requests: judged after some time';

# a probe ends where the traffic does
$auto->set(used => 1);
ok $auto->until(sub { $_[0]{found} > 20 }, 10), 'probe begins';
$auto->set(used => 0.2);
$reply = $auto->until(sub { $_[0]{found} <= 20 }, 10);
is "@$reply{qw/found reason/}", '20 unused', 'not used: probe ends';

# one session had all permits in use; requests that wait
my %few = (count => 200, sum => 10_000_000, window => 1000);
$reply = { found => 10 };
for (1 .. 9) {
    $scripts->advance(1100);
    $reply = $one->adjust('peak', %few, peak => $reply->{found});
}
cmp_ok $reply->{found}, '>', 10, 'all permits in use at one time: raised';
my %arg = (literal => 1, queue => 9);
$one->ask('wait', $_, %arg) for 1 .. 4;
for (1 .. 3) {
    $scripts->advance(1100);
    $reply = $one->adjust('wait', %few, count => 9, sum => 9000);
}
isnt $reply->{reason}, 'unused', 'requests wait';

# the first sample of a worker that had no request for some seconds: it is not
# that of many workers, which would use a part of the limit each
$one->adjust('idle', count => 1, sum => 50_000, window => 5000);
$auto = Dsem::Auto->new($scripts, 'idle', [ $one ], used => 0.2);
$auto->run(5);
is_deeply [ grep { $_ != 10 } $auto->trace ], [], 'idle before: not probed';
