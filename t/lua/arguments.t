#!/usr/bin/perl

# Bad or missing arguments are rejected before the first write. The error names
# the slot.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Dsem::Scripts;
use Dsem::Test;

my $scripts = Dsem::Scripts->new(Dsem::Test->new);
my $one = $scripts->session('one')->enter;
my $two = $scripts->session('two')->enter;
$one->ask('api', 1, limit => 2);
$two->ask('api', 2, limit => 2);
$one->ask('api', 3, limit => 2);

my ($gen, $big) = ($one->gen, 2 ** 53 + 2);
my @who = ($one->name, 1, 77);
my %argv = (
    hello => [ $one->name, 2, 77, $gen, 5, 5000, 2, 9, 'a1' ],
    configure => [ @who, 'a1', 0, 1, 2, 'api', 3, 'web', 4 ],
    beat => [ @who, $gen, 5000 ],
    bye => [ @who, $two->name, 5000 ],
    declared => [ @who ],
    declare => [ @who, 3, 2, 0, 2, 7, 1, 42, 1, 8, 1, 0, 1 ],
    sync => [ $one->name, "1 77 $gen 3 1 1 1 2 1", 'api', '3 1', '6 1 0 9',
        '9 1 -8 9', '3 1' ],
    syncs => [ $one->name, "1 77 $gen", 'api', '3 1 0 1', '6 1 0 9' ],
);

# values that each slot must reject besides non-numbers; - where any value is
# valid
my @count = ($big, -1);
my @positive = ($big, -1, 0);
my @session = ('', 'one', 'one:0', 'one:0:xyz', 'o ne:0:1', "one:0:1\n",
    'one:0:1 1');
my %bad = (
    hello => [ \@session, \@positive, \@count, \@count, \@positive,
        \@positive, \@count, \@count, undef ],
    configure => [ \@session, \@positive, \@count, undef, \@count, \@positive,
        [ $big, -1, 0, 3, 17 ], undef, \@count, undef, \@count ],
    beat => [ \@session, \@positive, \@count, \@count, \@positive ],
    bye => [ \@session, \@count, \@count, \@session, \@positive ],
    declared => [ \@session, \@positive, \@count ],
    declare => [ \@session, \@positive, (\@count) x 4, [ $big, -1, 3 ],
        (\@positive) x 2, [ $big, -$big ], \@count,
        (\@positive) x 2, [ $big, -$big ], \@count ],
    sync => [ \@session,
        [ words("1 77 $gen 3 1 1 1 2 1", \@positive, (\@count) x 3,
            [ $big, -1, 16 ], \@count, ([ $big, -1, 9 ]) x 3) ], undef,
        [ words('3 1', (\@positive) x 2) ],
        [ words('6 1 0 9', (\@positive) x 2, [ -9, 8 ], \@count) ],
        [ words('9 1 -8 9', (\@positive) x 2, [ -9, 8 ], \@count) ],
        [ words('3 1', (\@positive) x 2) ] ],
    # numbers in an acquire are left to sync
    syncs => [ \@session, [ words("1 77 $gen", (\@count) x 3) ], undef,
        [ words('3 1 0 1', ([-1]) x 3, [ $big, -1, 9 ]) ], undef ],
);

# The string with one of its words replaced by each of its bad values, with a
# word less, and with one more.
sub words {
    my ($text, @bad) = @_;
    my @words = split / /, $text;
    return "@words[1 .. $#words]", "$text 1", " $text", map {
        my $n = $_;
        map { join ' ', @words[0 .. $n - 1], $_, @words[$n + 1 .. $#words] }
            @{ $bad[$n] }, 'x', '1.5', '1e3', '+1', '';
    } 0 .. $#words;
}

my $before = $scripts->dump;

for my $script (sort keys %argv) {
    my @keys = $scripts->keys_of($script, 'api');
    my @good = @{ $argv{$script} };
    is scalar @good, scalar @{ $bad{$script} }, "$script: all slots";

    my $refused = 0;
    for my $slot (1 .. @good) {
        eval { $scripts->run($script, \@keys, @good[0 .. $slot - 2]) };
        $refused += $@ =~ /DSEM argument \d+ is not/;
    }
    is $refused, @good, "$script: missing arguments refused";

    for my $slot (1 .. @good) {
        my $values = $bad{$script}[$slot - 1] or next;
        my @wrong = grep {
            my @argv = @good;
            $argv[$slot - 1] = $_;
            eval { $scripts->run($script, \@keys, @argv) };
            $@ !~ /DSEM argument \d+ is not/;
        } @$values, '', 'x', '1.5', '1e3', '0x10', ' 1', '+1', 'nan', '-',
            "1\0", '9' x 400;
        is_deeply \@wrong, [], "$script: bad argument $slot refused";
    }
}

# ids and names of other characters
for (
    [ hello => 9, '', 'x', 'a 1', "a1\n", '--' ],
    [ configure => 4, '', 'x', 'a 1', "a1\n", '--' ],
    [ configure => 8, '', 'a b', 'a{0}', "a\n", 'a;b' ],
) {
    my ($script, $slot, @values) = @$_;
    my @wrong = grep {
        my @argv = @{ $argv{$script} };
        $argv[$slot - 1] = $_;
        eval { $scripts->run($script, [ $scripts->keys_of($script) ], @argv) };
        $@ !~ /DSEM argument $slot is not/;
    } @values;
    is_deeply \@wrong, [], "$script: bad text $slot refused";
}

is $scripts->dump, $before, 'nothing written';

# valid arguments would have written
for my $script (qw/beat bye configure declare declared syncs sync hello/) {
    my @keys = $scripts->keys_of($script, 'api');
    ok eval { $scripts->run($script, \@keys, @{ $argv{$script} }) },
        "$script: good ones accepted";
}

$scripts->done;
