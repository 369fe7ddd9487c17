#!/usr/bin/perl

# Random walks over the real scripts: a few workers, and whatever can go wrong
# between them and Redis. Each seed is one walk; what is checked stands in
# model/Model/Walk.pm. A walk that ends badly is shown, command by command, by
# t/model/walk FAULTS SEED STEPS.

use warnings;
use strict;

use Test::More;

use FindBin;
use List::Util qw(first);
use lib "$FindBin::Bin/../lib", "$FindBin::Bin/../model";

use Dsem::Test;
use Model::Walk;

my $t = Dsem::Test->new;
my $client = Model::Client->new($t->redis->unix);
my $scripts = Model::Walk->load($client, sub { $t->script($_[0]) });
my ($seeds, $steps) = $ENV{DSEM_LONG} ? (400, 600) : (12, 120);

# what goes wrong in one walk, with the command that shows it
sub walk {
    my ($faults, $scripts, $seed, $length, %arg) = @_;
    $length //= $steps;
    my $bad = Model::Walk->new($client, $scripts, faults => $faults,
        seed => $seed, %arg)->run($length) || return;
    return "t/model/walk $faults $seed $length: $bad";
}

for my $faults (sort keys %Model::Walk::FAULTS) {
    my @bad = map { walk($faults, $scripts, $_) } 1 .. $seeds;
    is @bad, 0, "$faults: $seeds walks" or diag join "\n", @bad;
}

# the walk itself is tested with scripts that are broken on purpose
for (
    [ 'F1', 'none', 'sync', qr/sem\.waiting == 0 and not/, 'not' ],
    [ 'S1', 'loss', 'hello', qr/known ~= 0 and known ~= gen/, 'false' ],
    [ 'S1', 'break', 'sync', qr/current ~= epoch/, 'not current' ],
    [ 'C3', 'conf', 'hello', qr/joined and joined ~= id/, 'false' ],
    # a session counts before it has declared
    [ 'S1', 'loss', 'hello', qr/fence - PENDING/, 'fence' ],
    # a second loss forgets the session that was missing
    [ 'S1', 'again', 'hello beat', qr/math.max\(size, .* \+ new\)/, 'size',
        300 ],
    [ 'C1', 'kill', 'sync', qr/account and account\.epoch == epoch/,
        'account' ],
) {
    my ($what, $faults, $which, $from, $to, $length) = @$_;
    my %which = map { $_ => 1 } split / /, $which;
    my $found = 0;
    my $broken = Model::Walk->load($client, sub {
        my $text = $t->script($_[0]);
        $found += $text =~ s/$from/$to/ if $which{ $_[0] };
        return $text;
    });
    is $found, keys %which, "$which: broken for $what";
    ok +(first { (walk($faults, $broken, $_, $length) // '') =~ /: $what / }
            1 .. 96),
        "$which: $what seen";
}

# and with workers that do not keep a rule about their own permits
for (
    [ 'S1', 'away', 'fence' ],
    [ 'S1', 'break', 'sent' ],
    [ 'S1', 'again', 'expired' ],
    [ 'S1', 'again', 'counted' ],
) {
    my ($what, $faults, $rule, $length) = @$_;
    ok +(first { (walk($faults, $scripts, $_, $length, broken => $rule) // '')
            =~ /: $what / } 1 .. 96),
        "own permits, $rule: $what seen";
}

$client->cmd('FLUSHALL');
$t->done;
