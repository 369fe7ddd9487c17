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

# the first requests: a probe, which finds the same latency, then raises
my $limit = judged('api', 50);
is "@$limit{qw/found reason/}", '5 probing', 'probe';
is in_force('api'), 5, 'probe in force';
is field('api'), '5=1-100 a1 a2', 'probe in the field';
$limit = judged('api', 50);
is "@$limit{qw/found floor latency/}", '10 50000 50000', 'floor known';
my $before = 10;
for (1 .. 7) {
    $limit = judged('api', 50);
    cmp_ok $limit->{found}, '>', $before, 'raised';
    $before = $limit->{found};
}
is $limit->{reason}, 'probing', 'reason of a raise';
is $one->sync('api', literal => 1)->{limit}, $before, 'in force';

# twice the latency: at the second judgement a probe, as the floor is not fresh
judged('api', 100);
is in_force('api'), $before, 'one judgement alone changes nothing';
$limit = judged('api', 100);
is "@$limit{qw/found reason/}", int($before / 2) . ' latency', 'lowered';
$limit = judged('api', 50);
is in_force('api'), int $before / 4, 'fell with the limit: lower still';
$limit = judged('api', 50);
cmp_ok abs($limit->{found} - $before / 2), '<', 3, 'half of the limit';
is $limit->{floor}, 50_000, 'same floor';

# twice the latency, whatever the limit
$before = $limit->{found};
judged('api', 100) for 1 .. 6;
is $limit->{floor} * 2, judged('api', 100)->{floor}, 'slower: another floor';
cmp_ok in_force('api'), '>=', $before - 3, 'limit stays';

# errors
$before = in_force('api');
my $normal = judged('api', 100, errors => 0.04);
cmp_ok $normal->{found}, '>=', $before, 'few errors are normal';
$before = in_force('api');
$limit = judged('api', 100, errors => 0.3);
cmp_ok $limit->{found}, '<', $before * 0.8, 'errors: lowered';
is $limit->{reason}, 'errors', 'errors: reason';
judged('api', 100) for 1 .. 8;
is in_force('api'), $before - 1, 'raised to one below';
is judged('api', 100)->{reason}, 'errors', 'and no more';

# errors at any limit are not caused by load
for (1 .. 20) {
    $limit = judged('api', 100, errors => 0.8);
    last if $limit->{found} == $before - 1 && $_ > 1;
}
is $limit->{found}, $before - 1, 'errors at the minimum too: raised';
cmp_ok judged('api', 100, errors => 0.8)->{found}, '>=', $before - 1,
    'and left alone';

# not used
$before = in_force('api');
$limit = judged('api', 50, used => 0.3) for 1 .. 4;
is "@$limit{qw/found reason/}", "$before unused", 'not used: stays';

# bounds
$one->bye;
$two->bye;
$one = $scripts->session('three')->configured('a3', { small => '8=5-30' });
judged('small', 50) for 1 .. 10;
is in_force('small'), 30, 'maximum';
is judged('small', 50)->{reason}, 'bound', 'reason at the maximum';
judged('small', 10 * in_force('small')) for 1 .. 8;
cmp_ok in_force('small'), '<=', 6, 'knee below the minimum';
cmp_ok in_force('small'), '>=', 5, 'minimum';

$scripts->done;

# Samples of a worker that uses all permits for so many ms each, until they are
# judged.
sub judged {
    my ($name, $ms, %arg) = @_;
    my $limit = in_force($name);
    my $count = int $limit * 1000 / $ms * ($arg{used} // 1);
    my $errors = int $count * ($arg{errors} // 0);
    my $good = $count - $errors;
    for (1 .. 30) {
        my $before = $redis->cmd('HGET', $state->auto_key($name), '.');
        $scripts->advance(1100);
        my $reply = $one->adjust($name, count => $count, errors => $errors,
            sum => int($good * $ms * 1000), window => 1000, peak => 0,
            max => 100);
        my $now = $redis->cmd('HGET', $state->auto_key($name), '.');
        return $reply if $reply->{latency} && judged_now($before // '', $now);
    }
    die "$name: not judged\n";
}

# the number of requests that were not judged yet is not larger
sub judged_now {
    my ($before, $now) = map { (split ' ', $_)[17] // 0 } @_;
    return $now <= $before;
}

sub in_force { return $state->lowest_limit(@_) }
sub field { return $redis->cmd('HGET', $state->key, "limit:$_[0]") }
