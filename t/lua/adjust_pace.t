#!/usr/bin/perl

# Sessions are told when to send their next sample, so that all of them together
# send few.

use lib 't/lib';
use Dsem::Auto;
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;
my $state = $scripts->state;
my @sessions = map { $scripts->session("n$_")->configured('a',
    { api => '10=1-1000' }) } 1 .. 150;
my %few = (count => 1, sum => 50_000);

for ([ 1, 100 ], [ 3, 300 ], [ 10, 1000 ], [ 30, 1000 ], [ 150, 1500 ]) {
    my ($n, $pace) = @$_;
    $scripts->redis->cmd('DEL', $state->auto_key('api'));
    my $auto = Dsem::Auto->new($scripts, 'api', [ @sessions[0 .. $n - 1] ]);
    my $reply = $auto->run(15);
    cmp_ok abs($reply->{next} - $pace), '<=', $pace * 0.15, "$n sessions"
        or diag $reply->{next};
}
is $scripts->redis->cmd('HLEN', $state->auto_key('api')) <= 2, 1,
    'nothing is kept for each';

# the number is the same with each count, though the pace changes with it
for my $n (6 .. 9) {
    $scripts->redis->cmd('DEL', $state->auto_key('api'));
    my $auto = Dsem::Auto->new($scripts, 'api', [ @sessions[0 .. $n - 1] ]);
    $auto->run(15);
    my %paces;
    $auto->run(20, sub { $paces{ $_[0]{next} }++ });
    is "@{[ sort keys %paces ]}", 100 * $n, "$n sessions: one pace";
}

# first samples that reach back to the start of the workers, seconds before
$scripts->redis->cmd('DEL', $state->auto_key('api'));
$_->adjust('api', %few, window => 5000) for @sessions[0, 1];
my $two = Dsem::Auto->new($scripts, 'api', [ @sessions[0, 1] ]);
is $two->run(2)->{next}, 200, 'two sessions counted as two';

# a sample that reaches back before the last change tells nothing
my $auto = Dsem::Auto->new($scripts, 'api', [ $sessions[0] ]);
$scripts->redis->cmd('DEL', $state->auto_key('api'));
$auto->until(sub { $_[0]{floor} }, 5);
my $found = $auto->found;
my $reply;
for (1 .. 3) {
    $scripts->advance(2000);
    $reply = $sessions[0]->adjust('api', %few, count => 1e5, sum => 5e10,
        window => 60_000);
}
is $reply->{found}, $found, 'requests of before the change do not count';
