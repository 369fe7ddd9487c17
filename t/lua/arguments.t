#!/usr/bin/perl

# Bad or missing arguments are rejected before the first write. The error names
# the slot.

use lib 't/lib';
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;
my $one = $scripts->session('one')->enter;
my $two = $scripts->session('two')->enter;
$one->ask('api', 1, limit => 2);
$two->ask('api', 2, limit => 2);
$one->ask('api', 3, limit => 2);

my ($gen, $big) = ($one->gen, '9007199254740994');
my @who = ($one->name, 1, 77);
my %argv = (
    hello => [ $one->name, 2, 77, $gen, 5, 5000, 2, 9, 'a1',
        'f' x 16, 1, 4, 5000, 60_000 ],
    configure => [ @who, 'a1', 0, 1, 2, 'api', 3, 'web', 4 ],
    beat => [ @who, $gen, 5000, 'api 3 web 12' ],
    inspect => [ @who, 9, 5000, 'api' ],
    names => [ @who, 0 ],
    order => [ @who, 'api', 3, 1 ],
    bye => [ @who, $two->name, 5000 ],
    declared => [ @who ],
    declare => [ @who, 3, 2, 0, 2, 7, 1, 42, 1, 8, 1, 0, 1 ],
    sync => [ $one->name, "1 77 $gen 3 1 1 1 2 1", 'api', '3 1', '6 1 0 9',
        '9 1 -8 9', '3 1' ],
);

# values that each slot must reject besides non-numbers; - where any value is
# valid
my @count = ($big, -1);
my @positive = ($big, -1, 0);
my @session = ('', 'one', 'one:0', 'one:0:xyz', 'o ne:0:1', "one:0:1\n",
    'one:0:1 1');
my %bad = (
    hello => [ \@session, \@positive, \@count, \@count, \@positive,
        \@positive, \@count, \@count, undef,
        [ 'f' x 15, 'f' x 17, 'F' x 15 . 'g', 'f' x 15 . "\n" ],
        \@positive, \@count, \@count, \@count ],
    configure => [ \@session, \@positive, \@count, undef, \@count, \@positive,
        [ $big, -1, 0, 3, 5 ], undef, \@count, undef, \@count ],
    beat => [ \@session, \@positive, \@count, \@count, \@positive, undef ],
    inspect => [ \@session, \@count, \@count, [ $big, -1, 0, 1025 ],
        [ $big, -1, 3600001 ], undef ],
    names => [ \@session, \@count, \@count, [ -1, '1' x 20 ] ],
    order => [ \@session, \@positive, \@count, undef, undef, [ $big, -1, 2 ] ],
    bye => [ \@session, \@count, \@count, \@session, \@positive ],
    declared => [ \@session, \@positive, \@count ],
    declare => [ \@session, \@positive, (\@count) x 4, [ $big, -1, 3 ],
        map { (\@positive) x 2, [ $big, "-$big" ], [ $big, -1 ] } 1, 2 ],
    sync => [ \@session,
        [ words("1 77 $gen 3 1 1 1 2 1", \@positive, (\@count) x 3,
            [ $big, -1, 16 ], \@count, ([ $big, -1, 9 ]) x 3) ], undef,
        [ words('3 1', (\@positive) x 2) ],
        [ words('6 1 0 9', (\@positive) x 2, [ -9, 8 ], \@count) ],
        [ words('9 1 -8 9', (\@positive) x 2, [ -9, 8 ], \@count) ],
        [ words('3 1', (\@positive) x 2) ] ],
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

# ids, names and lists of other characters
my @names = ('', 'a b', 'a{0}', "a\n", 'a;b', 'x' x 201);
for (
    [ hello => 9, '', 'x', 'a 1', "a1\n", '--' ],
    [ configure => 4, '', 'x', 'a 1', "a1\n", '--' ],
    [ configure => 8, @names ],
    [ inspect => 6, @names ],
    [ order => 4, @names ],
    [ order => 5, '', 'x', $big, 1e9 + 1, -1, '1e3', ' 1', '1 ', '==', '--',
        "=\n", '1' x 400 ],
    [ order => 6, '-', '=0', '' ],
    [ beat => 6, 'x', 'api', 'api 3 web', 'api -3', ' api 3', 'api 3 ',
        'api  3', "api 3\n", 'api 3;', 'a{0} 3', 'api x', 'api 1e3',
        'api 3 x web 4', 'api 12345678901', "api 3\0", '3', 'x' x 201 . ' 3',
        join ' ', map { "n$_ 1" } 1 .. 65 ],
) {
    my ($script, $slot, @values) = @$_;
    my @wrong = grep {
        my @argv = @{ $argv{$script} };
        $argv[$slot - 1] = $_;
        eval { $scripts->run($script, [ $scripts->keys_of($script, 'api') ],
            @argv) };
        $@ !~ /DSEM argument $slot is not/;
    } @values;
    is_deeply \@wrong, [], "$script: bad text $slot refused";
}

# the optional argument of bye, and names and keys that do not agree
for (
    [ bye => 'argument 6', [], 'x', '', 2, -1 ],
    [ inspect => 'argument 7', [], 'web' ],
    [ inspect => 'argument 7', [ 'web' ] ],
    [ inspect => 'keys', [ ('api') x 32 ], ('api') x 32 ],
) {
    my ($script, $what, $names, @more) = @$_;
    my @keys = $scripts->keys_of($script, 'api', @$names);
    eval { $scripts->run($script, \@keys, @{ $argv{$script} }, @more) };
    like $@, qr/DSEM $what (?:is|are) not/, "$script: $what refused";
}

# fewer keys, and no name
eval { $scripts->run('inspect', [ ($scripts->keys_of('inspect'))[0, 1] ],
    @{ $argv{inspect} }[0 .. 4]) };
like $@, qr/DSEM keys are not/, 'inspect: too few keys refused';
my @sync = ('sync', [ $scripts->keys_of('sync', 'api') ], $one->name,
    "1 77 $gen 3 1 0 0 1 0");
ok !eval { $scripts->run(@sync) }, 'sync: no name refused';

# an acquire that is no part of a longer call
for my $ask (undef, '', '0 1 0 9', '6 0 0 9', '6 1 8 9', '6 1 9 9', '6 1 -9 9',
    '6 1 0', '1' x 17 . ' 1 0 9')
{
    eval { $scripts->run(@sync, 'api', $ask // ()) };
    like $@, qr/DSEM argument 4 is not/, "sync: '" . ($ask // 'none')
        . "' refused";
}

is $scripts->dump, $before, 'nothing written';

# valid arguments would have written
for my $script (qw/inspect names order beat bye configure declare declared
    sync hello/)
{
    my @keys = $scripts->keys_of($script, 'api');
    ok eval { $scripts->run($script, \@keys, @{ $argv{$script} }) },
        "$script: good ones accepted";
}

# the largest ticket
is $scripts->session('three')->enter->ask('web', '4503599627370496'),
    'granted', '16 digits granted';
