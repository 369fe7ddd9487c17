#!/usr/bin/perl

# The limit that is found: the knee of the backend, from below and from above,
# and when it moves; from the samples of one worker or of six.

use lib 't/lib';
use Dsem::Auto;
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;
my $state = $scripts->state;
my $knee = 20;
my $n = 0;
my %mean;

for my $workers (1, 6) {
    for my $start (1, 5, 200) {
        $scripts->redis->cmd('FLUSHALL');
        my @sessions = map { $scripts->session("n$_")->configured(++$n . 'a',
            { api => "$start=1-1000" }) } 1 .. $workers;
        my $auto = Dsem::Auto->new($scripts, 'api', \@sessions,
            latency => \&knee);
        $auto->run(35);
        within($auto, "$workers, from $start");
        $mean{$workers} += ($auto->trace)[$_] / 30 for -10 .. -1;
        next if $start != 5;

        $knee = 10;
        ok $auto->until(sub { abs($_[0]{found} - 10) <= 2 }, 10),
            "$workers, halved: found";
        $auto->run(15);
        within($auto, "$workers, halved");
        $knee = 20;
        ok $auto->until(sub { abs($_[0]{found} - 20) <= 4 }, 20),
            "$workers, back: found";
        $auto->run(15);
        within($auto, "$workers, back");
    }
}
cmp_ok abs($mean{1} - $mean{6}), '<=', 2, 'same limit for one and six';

# slower in the middle of a probe: it goes on
my $worse = Dsem::Auto->new($scripts, 'worse', [ $scripts->session('worse')
    ->configured('e', { worse => '10=1-1000' }) ], latency => \&knee);
$worse->run(20);
$knee = 10;
my $high = $worse->found;
$worse->until(sub { $_[0]{found} < $high }, 10);
$knee = 3;
ok $worse->until(sub { $_[0]{found} <= 4 }, 20), 'slower during a probe';
$worse->run(20);
within($worse, 'slower during a probe: knee', 3);
$knee = 20;

# slower at any number of requests: the floor is found anew
my $slow = Dsem::Auto->new($scripts, 'slow', [ $scripts->session('slow')
    ->configured('f', { slow => '10=1-1000' }) ], latency => \&knee);
$slow->run(20);
$slow->set(latency => sub { 2 * knee(@_) })->run(20);
within($slow, 'slower');
cmp_ok abs($slow->run(1)->{floor} - 100_000), '<', 10_000, 'slower: its floor';
$slow->set(latency => \&knee)->run(20);
within($slow, 'faster');

# at the maximum, a backend that was slow at any number of requests begins to
# queue them, and answers them a little faster than before: only a probe shows
# that its floor is much lower now
my $most = Dsem::Auto->new($scripts, 'most', [ $scripts->session('most')
    ->configured('e0', { most => '10=1-24' }) ], latency => sub { 100 },
    max => 24);
ok $most->until(sub { $_[0]{found} == 24 }, 30), 'at the maximum';
$most->run(10);
$most->set(latency => sub { 50 * ($_[0] > 13 ? $_[0] / 13 : 1) });
ok $most->until(sub { $_[0]{floor} < 60_000 && $_[0]{found} <= 16 }, 40),
    'floor measured from time to time';

$scripts->done;

sub knee { return 50 * ($_[0] > $knee ? $_[0] / $knee : 1) }

# the median of the last samples: a probe may be going on
sub within {
    my ($auto, $what, $most) = @_;
    my $found = (sort { $a <=> $b } ($auto->trace)[-31 .. -1])[15];
    cmp_ok abs($found - $knee), '<=',
        $most // $knee * 0.2, $what or diag $found;
}
