#!/usr/bin/perl

# Many nodes with configurations of their own: a configuration has a short id,
# and comes, leaves and moves its limit without a look at all others.

use Digest::SHA qw(sha1_hex);
use lib 't/lib';
use Dsem::Scripts;

# configurations; calls of string functions by a script
my ($MANY, $STEPS) = (400, 300);

# with an error after so many calls
my $COUNTED = <<"EOF_LUA";
local steps = 0
local string = setmetatable({}, { __index = function(_, name)
    steps = steps + 1
    if steps > $STEPS then error('$STEPS string functions', 0) end
    return string[name]
end })
EOF_LUA

my $scripts = Dsem::Scripts->new;
my $state = $scripts->state;

# two digests that begin with the same four digits
my ($first, $second, %seen);
for (1 .. 2000) {
    $second = sha1_hex($_);
    last if $first = $seen{ substr $second, 0, 4 };
    $seen{ substr $second, 0, 4 } = $second;
}
my $one = $scripts->session('one')->configured($first, { api => 1 });
my $two = $scripts->session('two')->configured($second, { api => 2 });
is_deeply [ map { length $_->[1] } $state->limits('api') ], [ 4, 6 ],
    'as much of a digest as is needed';
my $same = $scripts->session('same');
is $same->hello(config => $second)->{unknown}, 0, 'configuration known';
$one->bye;
is $same->hello(config => $second)->{unknown}, 0, 'known by the longer id';
is_deeply [ $state->limits('api') ], [ [ 2, substr $second, 0, 6 ] ],
    'the other one withdrawn';
$scripts->redis->cmd('FLUSHALL');

# many, half of them with the same limit of "same"
my @many;
for my $n (1 .. $MANY) {
    my %limits = map { $_ => 5000 + $n * 7919 % $MANY } qw/a b c/;
    push @many, $scripts->session("n$n")->configured(sha1_hex($n),
        { %limits, same => $n % 2 ? 5 : 5000 + $n });
}
cmp_ok length($state->shard('limit:a')), '<', 12 * $MANY, 'short ids';
is scalar(keys %{ $state->entries }), @many + 0, 'no field looks like a session';

my $source = $scripts->can('source');
{
    no warnings 'redefine';
    *Dsem::Scripts::source = sub { $COUNTED . $source->(@_) };
}
$scripts->{sha} = {};
my $new = $scripts->session('new');
$new->hello(config => 'fe');
is $new->configure('fe', 0, 2, a => 5200, b => 1, c => 99999, same => 5)
    ->{status}, 'ok', 'one more configuration';
is $new->configure('fe', 1, 2, auto => '10=1-1000', 'd' => 5)->{status},
    'ok', 'a name of its own';
$new->declared;
is $state->lowest_limit('b'), 1, 'its limit in force';
is $many[0]->sync('a', literal => 1)->{limit}, 5000, 'and those of others';
is $new->bye->{status}, 'ok', 'and one less';
is $state->lowest_limit('b'), 5000, 'limit withdrawn';

# limit=auto beside the others
my $auto = $scripts->session('auto');
$auto->hello(config => 'a0');
$auto->configure('a0', 0, 1, a => '10=1-9999');
$auto->declared;
$state->set_found('a', 5100);
is $auto->adjust('a', count => 100, sum => 5e6, peak => 9, window => 999,
    errors => 99, max => 9999)->{status}, 'ok', 'a limit that is found';
my @limits = map { $_->[0] } $state->limits('a');
is_deeply \@limits, [ sort { $a <=> $b } @limits ], 'lowest first';
