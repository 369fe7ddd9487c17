#!/usr/bin/perl

# One of four nodes is a second farther from the backend. Its distance is taken
# off the times of its requests, so the latency does not depend on how many of
# them a turn has. Small distances stay, they may be chance; what all nodes have
# in common stays, too.

use lib 't/lib';
use Dsem::Scripts;

# us
use constant { NEAR => 50_000, FAR => 1_050_000 };

my $scripts = Dsem::Scripts->new;
my $redis = $scripts->redis;
my $key = $scripts->state->auto_key('api');
my @sessions = map { $scripts->session("n$_")->configured('a',
    { api => '10=10-10' }) } 0 .. 3;
my %usual;

# the times of before, and builds that do not send them
rounds(FAR, 30, 10);
cmp_ok varies(FAR), '>', 1.5, 'by what the turn has of it';
ok !defined usual(), 'no usual time';

rounds(FAR, 60, 10, 1);
like usual(), qr/^\d+\.\d+ \d+$/, 'the usual time of the fleet';
cmp_ok varies(FAR, 1), '<', 1.02, 'the same by any part of it';

# a build that knows nothing of it has begun anew
my $found = $scripts->state->rule('api')->{found};
$redis->cmd('HDEL', $key, 'usual');
rounds(FAR, 1, 10);
ok !defined usual(), 'not known again';
is $scripts->state->rule('api')->{found}, $found, 'the rest stays';
rounds(FAR, 60, 10, 1);

# all become slower, and that becomes usual
my $before = rounds(FAR, 12, 10, 1);
my $after = rounds(FAR, 12, 10, 1, 2);
cmp_ok $after / $before, '>', 1.9, 'slower at all nodes: seen';
cmp_ok rounds(FAR, 60, 10, 1, 2) / $before, '>', 1.9, 'and not forgotten';

# a node that is a fifth slower than the others
$redis->cmd('DEL', $key);
%usual = ();
rounds(NEAR * 1.2, 60, 10, 1);
cmp_ok varies(NEAR * 1.2, 1), '>', 1.03, 'a small distance stays';

# one that leaves, and a fleet of one
$redis->cmd('DEL', $key);
$scripts->advance(1000), sample(0, FAR, 20, 1000, 1) for 1 .. 30;
ok !defined usual(), 'one session: none';

$scripts->done;

# Samples of all sessions, the first of which has its own time and number of
# requests; known: with the usual times; times: as long. The last latency.
sub rounds {
    my ($us, $n, $count, $known, $times) = @_;
    my $latency;
    for (1 .. $n) {
        for my $i (0 .. 3) {
            $scripts->advance(100);
            $latency = sample($i, ($times // 1) * ($i ? NEAR : $us),
                $i ? 10 : $count, 400, $known)->{latency};
        }
    }
    return $latency;
}

sub sample {
    my ($i, $us, $count, $window, $known) = @_;
    my $log = 10_000 * log $us;
    my $before = $usual{$i} // $log;
    # half of the way in each sample
    my $after = $usual{$i} = ($before + $log) / 2;
    return $sessions[$i]->adjust('api', count => $count, sum => $count * $us,
        window => $window, peak => 10, min => 10, max => 10,
        $known ? (usual => int $before, after => int $after) : ());
}

# The latency with few requests of the first session to that with many, or the
# other way round.
sub varies {
    my ($us, $known) = @_;
    my ($few, $many) = map { rounds($us, 20, $_, $known) } 2, 40;
    return $few > $many ? $few / $many : $many / $few;
}

sub usual { return $redis->cmd('HGET', $key, 'usual') }
