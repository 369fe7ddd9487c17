#!/usr/bin/perl

# Traffic in bursts, with more than a lease between them: a comparison that the end
# of a burst interrupts goes on with the next one, so that bursts shorter than a
# comparison find the limit, too.

use lib 't/lib';
use Dsem::Auto;
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;
my $state = $scripts->state;
my $one = $scripts->session('one')->configured('a', { api => '20=1-1000',
    short => '10=1-1000' });

my $auto = Dsem::Auto->new($scripts, 'api', [ $one ],
    latency => sub { 50 * ($_[0] > 20 ? $_[0] / 20 : 1) });
my @found;
for (1 .. 30) {
    $auto->run(1);
    push @found, $auto->found;
    $auto->pause(7000);
}
cmp_ok $found[-1], '>=', 10, 'limit found';
my @low = grep { $_ < 10 } @found;
cmp_ok scalar @low, '<=', 1, 'at most one probe below it' or diag "@found";

# of three samples each
my $short = Dsem::Auto->new($scripts, 'short', [ $one ],
    latency => sub { 50 * ($_[0] > 20 ? $_[0] / 20 : 1) });
for (1 .. 60) {
    $short->run(0.3);
    $short->pause(7000);
}
cmp_ok abs($short->run(0.3)->{kept} - 20), '<=', 6, 'found in short bursts';

# state that has expired in a probe
$auto->until(sub { $_[0]{found} < 20 && $_[0]{kept} != $_[0]{found} }, 40);
$scripts->redis->cmd('DEL', $state->auto_key('api'));
$auto->run(30);
my $median = (sort { $a <=> $b } ($auto->trace)[-31 .. -1])[15];
cmp_ok abs($median - 20), '<=', 4, 'found anew';
