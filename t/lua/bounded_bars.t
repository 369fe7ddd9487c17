#!/usr/bin/perl

# Three thousand expired bars are deleted some per beat. Where no session beats,
# each bye deletes more of them than it adds.

use lib 't/lib';
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;
my $redis = $scripts->redis;
my $one = $scripts->session('one')->enter;
# so few that none expires meanwhile
my $many = 3_000;

$one->bye($scripts->session('gone')) for 1 .. $many;
is $scripts->meta('last_bar'), $many, 'bars counted';
my $fields = $redis->cmd('HLEN', $scripts->state->key);
is $one->beat->{status}, 'ok', 'beat accepted';
is $redis->cmd('HLEN', $scripts->state->key), $fields, 'no bar over';

$scripts->pass(5000, $one);
my ($beats, $most, $deleted) = (0, 0, 0);
while ($scripts->meta('first_bar') && ++$beats < 200) {
    my $before = $redis->cmd('HLEN', $scripts->state->key);
    my $calls = $scripts->calls(sub { $one->beat });
    my $less = $before - $redis->cmd('HLEN', $scripts->state->key);
    $deleted = $less if $less > $deleted;
    $most = $calls->{all} if $calls->{all} > $most;
}
cmp_ok $deleted, '<=', 200, 'some per beat';
cmp_ok $most, '<', 20, 'few commands per beat';
is scalar(grep { $_->{bar} } values %{ $scripts->state->entries }), 0,
    'all deleted';
is scalar(grep { /^bar:/ } @{ $redis->cmd('HKEYS', $scripts->state->key) }), 0,
    'no field left';

# reloads that follow each other faster than heartbeats

sub bars { scalar grep { $_->{bar} } values %{ $scripts->state->entries } }

$one->bye($scripts->session('gone')) for 1 .. 50;
is bars(), 50, 'bars of 50 byes';
$scripts->advance(5001);
my $calls = $scripts->calls(sub { $one->bye($scripts->session('gone')) });
is bars(), 47, 'four expired bars deleted by a bye';
cmp_ok $calls->{all}, '<', 20, 'few commands per bye';
$one->bye($scripts->session('gone')) for 1 .. 19;
is bars(), 20, 'all expired bars deleted by byes';
is scalar(grep { /^bar:/ } @{ $redis->cmd('HKEYS', $scripts->state->key) }), 20,
    'fields of the others';
