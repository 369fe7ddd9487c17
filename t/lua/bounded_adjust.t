#!/usr/bin/perl

# Many nodes with bounds of their own for limit=auto: a sample is taken without
# a look at those of all others, and one more node comes and goes with no more
# than one.

use Digest::SHA qw(sha1_hex);
use lib 't/lib';
use Dsem::Scripts;

# configurations; calls of string functions by a script
my ($MANY, $STEPS) = (400, 150);

# with an error after so many calls
my $COUNTED = <<"EOF_LUA";
local steps = 0
local function count()
    steps = steps + 1
    if steps > $STEPS then error('$STEPS string functions', 0) end
end
local string = setmetatable({}, { __index = function(_, name)
    count()
    return string[name]
end })
EOF_LUA

my $scripts = Dsem::Scripts->new;
my $state = $scripts->state;

# bounds 1 to 1001, 2 to 1002 ...; and plain limits above
my @many;
for my $n (1 .. $MANY) {
    push @many, $scripts->session("n$n")->configured(sha1_hex($n),
        { api => sprintf('%d=%d-%d', 500 + $n, $n, 1000 + $n) });
    push @many, $scripts->session("p$n")->configured(sha1_hex("p$n"),
        { api => 2000 + $n });
}

my $source = $scripts->can('source');
{
    no warnings 'redefine';
    *Dsem::Scripts::source = sub { $COUNTED . $source->(@_) };
}
$scripts->{sha} = {};

my %sample = (count => 100, sum => 5e6, peak => 999, window => 999,
    max => 1001);
for my $found (700, 300, 1, 1001) {
    $state->set_found('api', $found);
    my $reply = $many[0]->adjust('api', %sample);
    is $reply->{status}, 'ok', "a sample at $found";
    is $state->lowest_limit('api'), $reply->{found}, 'the number found';
}
$many[0]->adjust('api', %sample, errors => 100) && $scripts->advance(1000)
    for 1 .. 3;
cmp_ok $state->lowest_limit('api'), '<', 1001, 'it moves';

my $new = $scripts->session('new');
$new->hello(config => 'fe');
is $new->configure('fe', 0, 1, api => '20=2-30')->{status}, 'ok',
    'one more node with bounds';
is $many[0]->adjust('api', %sample)->{found}, 30, 'its bounds in force';
$new->declared;
is $new->bye->{status}, 'ok', 'and one less';
$state->set_found('api', 1001);
is $many[0]->adjust('api', %sample)->{found}, 1001, 'bounds of the others';
