#!/usr/bin/perl

# Costs and keys that are bad or missing are rejected before the first write, on
# the shortcuts as on the rest. Without the fair ZSET there are no keys.

use lib 't/lib';
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;
my $state = $scripts->state;
my $one = $scripts->session('one')->enter;
my $gen = $one->gen;
$one->ask('api', $_, key => 'a') for 1 .. 3;

# api: something waits; web: nothing does
sub keys_of {
    my ($script, $name) = @_;
    return [ $scripts->keys_of($script, $name), $state->fair_keys($name) ];
}

my %words = (
    cancel => [ [ 2, 1 ], '1 0 0', 1 ],
    acquire => [ [ 4, 1, 0, 9 ], '0 1 0' ],
    check => [ [ 2, 1 ], '0 0 1', 1 ],
);
my @cost = ('', 'x', '0', '-1', '1.5', '1e3', '1000000000000001000',
    '9' x 400);
my @key = ('', 'a b', 'a{0}', "a\n", 'a,b', "a\0", "\xff", 'x' x 201);
my $before = $scripts->dump;

for my $name (qw/api web/) {
    my $keys = keys_of('sync', $name);
    for my $kind (sort keys %words) {
        my ($numbers, $counts, @limit) = @{ $words{$kind} };
        my $good = [ @$numbers, 1000, @limit, 'a' ];
        my @bad = map({ [ @$numbers, $_, @limit, 'a' ] } @cost);
        push @bad, map { [ @$numbers, 1000, $_, 'a' ] } @limit
            ? ('x', '-1', '1.5', '1e3', '', '9' x 400) : '1';
        push @bad, [ @$numbers, 1000, 'a' ] if @limit;
        push @bad, map { [ @$good[0 .. $#$good - 1], $_ ] } @key;
        push @bad, [ @$good[0 .. $#$good - 1] ], [ @$good, 'a' ],
            [ @$good, '' ];
        push @bad, [ @$good[1 .. $#$good] ] if $kind eq 'acquire';
        my @accepted = grep {
            eval { $scripts->run('sync', $keys, $one->name,
                "1 7 $gen 1 1 0 $counts", $name, "@$_") };
            $@ !~ /DSEM argument 4 is not/;
        } @bad;
        is_deeply \@accepted, [], "$name, $kind: bad ones refused";
        eval { $scripts->run('sync', [ @$keys[0 .. 2] ], $one->name,
            "1 7 $gen 1 1 0 $counts", $name, "@$good") };
        like $@, qr/DSEM argument 4 is not/, "$name, $kind: no ZSET, no key";
    }
}

eval { $scripts->run('sync', keys_of('sync', 'web'), $one->name,
    "1 7 $gen 1 1 0 0 1 0", 'web') };
like $@, qr/DSEM argument 4 is not/, 'no acquire';

my @declare = ($one->name, 1, 7, 1, 1, 0, 1, 9, 1, 42, 0);
my @accepted = grep {
    eval { $scripts->run('declare', keys_of('declare', 'api'), @declare,
        defined ? $_ : ()) };
    $@ !~ /DSEM argument 12 is not/;
} undef, '', 'a', '--', '-a', map({ "$_ a" } @cost), map { "1000 $_" } @key;
is_deeply \@accepted, [], 'declare: bad ones refused';
is $scripts->dump, $before, 'nothing written';

# good ones
my $long = 'x' x 200;
is $one->ask('api', 4, key => $long, cost => '1' . '0' x 18), 'queued',
    'longest key';
is $one->ask('web', 4, key => '~', cost => 1), 'granted', 'least cost';
is $one->ask('web', 5, limit => 2, key => 'a%20b:c.d_e-f', cost => 10),
    'granted', 'all characters';
is_deeply $one->sync('api', check => [ [ 4, 1, 5, $long ], [ 3, 1, 1, 'b' ],
    [ 3, 1 ], [ 3, 1, 1, 'a' ] ])->{checked}, { 4 => 1, 3 => 1 },
    'the key is part of the ticket';
is $one->sync('api', cancel => [ [ 3, 1 ] ], fair => 1)->{cancelled}{3}, 0,
    'no key: another ticket';
