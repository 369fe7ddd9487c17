#!/usr/bin/perl

# The fields of sessions are named after nodes, and may look like other fields
# of the shard. They are no orders and no limits: a lost key costs one recovery,
# and displays show semaphores only.

use lib 't/lib';
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;
my $state = $scripts->state;
my %shard = $state->shard_keys;

for my $node (qw/order limit names config ended bar parked/) {
    $scripts->redis->cmd('FLUSHALL');
    $scripts->order('api', 7);
    my $one = $scripts->session($node)->configured('a20', { web => 20 });
    my ($two, $gone) = map { $scripts->session($node)->enter } 1, 2;
    $one->bye($gone);
    is_deeply [ sort @{ $one->names->{names} } ], [qw/api web/],
        "$node: names of semaphores";

    $scripts->redis->cmd('DEL', $shard{sessions});
    is $one->beat->{status}, 'resync', "$node: loss seen";
    $_->configured('a20', { web => 20 }) for $one, $two;
    is_deeply [ map { $_->beat->{status} } $one, $two ], [qw/ok ok/],
        "$node: lost once";
    is_deeply [ sort keys %{ $state->entries } ],
        [ sort map { $_->name } $one, $two ], "$node: bars forgotten";
    is $one->ask('api', 1), 'granted', "$node: permits are granted";
    is $one->{asked}{limit}, 7, "$node: order kept";
}
