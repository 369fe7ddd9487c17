#!/usr/bin/perl

# Where nothing waits no tag is read or written, and nothing is kept of keys: on
# the shortcut and on the rest of sync, which an order leads to.

use lib 't/lib';
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;
my $state = $scripts->state;
my $one = $scripts->session('one')->enter;
$scripts->order('rest', 4);

for my $name (qw/shortcut rest/) {
    my @verdicts;
    my $calls = $scripts->calls(sub {
        @verdicts = map {
            $one->ask($name, $_, limit => 4, queue => 9, key => "k$_")
        } 1 .. 4;
        $one->sync($name, release => 1, fair => 1) for 1 .. 3;
        push @verdicts, $one->ask($name, 5, limit => 4, queue => 9,
            key => 'k1');
    });
    is_deeply \@verdicts, [ ('granted') x 5 ], "$name: all granted";
    is_deeply [ grep { /^z/ } sort keys %$calls ], [],
        "$name: no sorted set is looked at";
    is $scripts->redis->cmd('EXISTS', $state->fair_key($name)), 0,
        "$name: no tags";
    unlike $scripts->dump, qr/k[1-5]/, "$name: no key is kept";
}
