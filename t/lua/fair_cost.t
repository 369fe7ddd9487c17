#!/usr/bin/perl

# The cost of a request has no bound of its own: with weights in units such as
# tokens a key with requests of 4000 of them and one with requests of 400 have
# the same part of the permits, on the shortcut as on the rest.

use lib 't/lib';
use Dsem::Scripts;

# permits; us for which a request holds one
my ($LIMIT, $TIME) = (4000, 20_000_000);
my %weight = (large => 4000, small => 400);

my $scripts = Dsem::Scripts->new;
my $state = $scripts->state;
my $one = $scripts->session('one')->enter;

for my $name (qw/shortcut rest/) {
    $scripts->order($name, $LIMIT) if $name eq 'rest';
    my $ticket = 0;
    my %key;
    my $ask = sub {
        my ($key) = @_;
        $key{ ++$ticket } = $key;
        my $verdict = $one->ask($name, $ticket, limit => $LIMIT, queue => 100,
            key => $key, weight => $weight{$key},
            cost => $weight{$key} * $TIME);
        die "$key: $verdict\n" if $ticket > 1 && $verdict ne 'queued';
    };
    $ask->($_) for 'large', ('large') x 3, ('small') x 30;
    my @queue = map { substr((split)[4], 0, 1) } $scripts->queue($name);
    # the first ones of a new key come later by a fourth of a large one
    is join('', @queue), join('l', '', map { 's' x $_ } 8, 10, 12),
        "$name: ten small ones to a large one";
}

$scripts->done;
