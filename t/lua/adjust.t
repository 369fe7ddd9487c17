#!/usr/bin/perl

# adjust moves the limit of a name with limit=auto, by what requests took. The
# number is a group of the field that all syncs read.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Dsem::Scripts;
use Dsem::Test;

my $scripts = Dsem::Scripts->new(Dsem::Test->new);
my $state = $scripts->state;
my $redis = $scripts->redis;
my ($one, $two) = map { $scripts->session($_)->listen } qw/one two/;

$one->{epoch} = 1;
is $one->adjust('api')->{status}, 'resync', 'session unknown';
is $redis->cmd('DBSIZE'), 0, 'nothing written';
$one->{epoch} = 0;

$one->configured('a1', { api => '10=1-100', lit => 5 });
is field('api'), '10=1-100 a1', 'configured';
$two->configured('a2', { api => '7=1-100' });
is field('api'), '10=1-100 a1 a2', 'another with the same bounds';
is in_force('api'), 10, 'in force';

my $reply = $one->adjust('api');
is delete $reply->{latency}, 0, 'no latency';
is_deeply $reply, { status => 'ok', limit => 10, found => 10, floor => 0,
    reason => 'none', next => 100 }, 'no request yet';
is $redis->cmd('TTL', $state->auto_key('api')), 5, 'kept for a lease';

# the first requests: a probe, which finds the same latency, then a raise
my $limit = sample('api', 50);
is $limit->{found}, 5, 'probe';
is $limit->{reason}, 'probing', 'probing';
is in_force('api'), 5, 'probe in force';
is field('api'), '5=1-100 a1 a2', 'probe in the field';
$limit = sample('api', 50);
is $limit->{found}, 10, 'back';
is $limit->{floor}, 50_000, 'floor';
my $before = 10;
for (1 .. 12) {
    $limit = sample('api', 50);
    cmp_ok $limit->{found}, '>', $before, 'raised';
    $before = $limit->{found};
}
is $one->sync('api', literal => 1)->{limit}, $before, 'in force';

# latency grows: a cut
$limit = sample('api', 100);
cmp_ok $limit->{found}, '<=', int $before / 2 + 2, 'lowered';
is $limit->{reason}, 'latency', 'latency';

# not used
$limit = sample('api', 50, count => 10) for 1 .. 4;
is $limit->{reason}, 'unused', 'not used';
$before = $limit->{found};
$limit = sample('api', 50, count => 10) for 1 .. 8;
is $limit->{found}, $before, 'not raised';

$scripts->done;

# One sample of a worker that uses all permits for so many ms each.
sub sample {
    my ($name, $ms, %arg) = @_;
    my $found = in_force($name);
    my $window = 2000;
    $scripts->advance($window + 200);
    my $count = $arg{count} // int $found * $window / $ms;
    return $one->adjust($name, count => $count, sum => $count * $ms * 1000,
        peak => 0, window => $window, max => 100);
}

sub in_force { return $state->lowest_limit(@_) }
sub field { return $redis->cmd('HGET', $state->key, "limit:$_[0]") }
