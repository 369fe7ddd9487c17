#!/usr/bin/perl

# Random walks over the real scripts: a few workers, and whatever can go wrong
# between them and Redis. Each seed is one walk; what is checked stands in
# model/Model/Walk.pm. A walk that ends badly is shown, command by command, by
# t/model/walk FAULTS SEED STEPS.

use warnings;
use strict;

use Test::More;

use Cpanel::JSON::XS qw(decode_json encode_json);
use FindBin;
use List::Util qw(first);
use lib "$FindBin::Bin/../lib", "$FindBin::Bin/../model";

use Dsem::Process;
use Dsem::Test;
use Model::Walk;

# the walks change the text of the scripts
delete $ENV{DSEM_LUA};

my $t = Dsem::Test->new;
my %text;
my ($client, $scripts, $small) = of_redis($t->redis);
my $long = $ENV{DSEM_LONG};
my $steps = $long ? 600 : 120;
my @seeds = $long ? 1 .. 400 : 1;
my @small_seeds = $long ? 1 .. 400 : 3;

sub of_redis {
    my ($redis) = @_;
    my $client = Model::Client->new($redis->unix);
    return $client, map { Model::Walk->load($client, \&text, $_) } 0, 1;
}

# of a script, which is assembled once
sub text {
    my ($name) = @_;
    return $text{$name} //= $t->script($name);
}

# what goes wrong in one walk, with the command that shows it
sub walk {
    my ($faults, $scripts, $seed, $length, %arg) = @_;
    $length //= $steps;
    my $bad = Model::Walk->new($client, $scripts, faults => $faults,
        seed => $seed, %arg)->run($length) || return;
    my @more = ($scripts == $small ? 1 : 0, $arg{fair} // 0,
        $arg{charges} // 0, defined $arg{limit} ? @arg{qw/queue limit/} : ());
    return "t/model/walk $faults $seed $length @more: $bad";
}

# [name, what returns what went wrong]
my @walks = map {
    my $faults = $_;
    [ "$faults: walks", sub { map { walk($faults, $scripts, $_) } @seeds } ],
    [ "$faults: walks in small steps",
        sub { map { walk($faults, $small, $_) } @small_seeds } ];
} sort keys %Model::Walk::FAULTS;

# tickets with keys; and workers without fair= among the others
for my $fair (1, 2) {
    push @walks, map {
        my $faults = $_;
        [ "$faults: fair walks, $fair", sub {
            # all of them in the long profile
            my @of = $long ? ($scripts, $small)
                : $fair == 1 ? $scripts : $small;
            map {
                my $of = $_;
                map { walk($faults, $of, $_, undef, fair => $fair,
                    charges => 1) }
                    $long ? @seeds : 1
            } @of;
        } ];
    } sort keys %Model::Walk::FAULTS;
}

# few permits and places
my @few = ([ 1, 2 ], [ 0, 1 ], [ 2, 1 ], [ 0, 2 ]);
my @faults = sort keys %Model::Walk::FAULTS;
for my $n (0 .. $#faults) {
    my ($queue, $limit) = @{ $few[ $n % @few ] };
    push @walks, [ "$faults[$n]: walks, queue $queue, limit $limit", sub {
        map { walk($faults[$n], $_ % 2 ? $small : $scripts, $_, undef,
            queue => $queue, limit => $limit, fair => $_ % 3, charges => 1) }
            $long ? @seeds : $n;
    } ];
}

# A walk waits for its Redis half of the time: the larger half of them has one
# of its own, beside the others and those with broken scripts.
my (%half, %bad);
push @{ $half{ $_ % 5 < 3 ? 'other' : 'own' } }, $walks[$_] for 0 .. $#walks;
my $redis = $t->redis;
pipe my $from, my $to or die "pipe: $!";
Dsem::Process->spawn(name => 'walks', log => $t->dir . '/walks.log',
    keep => [$to], code => sub {
        ($client, $scripts, $small) = of_redis($redis);
        $_->[1] = [ $_->[1]->() ] for @{ $half{other} };
        print $to encode_json({ map { @$_ } @{ $half{other} } });
        close $to;
    });
close $to;
$bad{ $_->[0] } = [ $_->[1]->() ] for @{ $half{own} };

# The walk itself is tested with scripts that are broken on purpose. Where that
# is not seen at once, the last number is a seed that has seen it.
for (
    [ 'F1', 'none', 'sync', qr/ask\.class < first/, 'true' ],
    [ 'S1', 'loss', 'hello', qr/known ~= 0 and known ~= shard\.gen/, 'false',
        undef, 26 ],
    [ 'C1', 'break', 'sync',
        qr/view\.entry\.epoch ~= call\.epoch|string\.match\(shard_values\[2\][^\n]* ~= epoch/,
        'false', undef, 2 ],
    [ 'C3', 'conf', 'hello', qr/entry and not joined/, 'false' ],
    # a limit that rises is not told
    [ 'L2', 'raise', 'beat configure', qr/if raised then/, 'if false then',
        undef, 8 ],
    # the clock moves by the lease of the caller
    [ 'C4', 'lease', 'beat hello bye', qr/shard\.lease > 0/, 'false' ],
    # a session counts before it has declared
    [ 'S1', 'loss', 'hello', qr/fence - PENDING/, 'fence', undef, 8 ],
    # a second loss forgets the session that was missing
    [ 'S1', 'again', 'hello beat', qr/math.max\(size, .* \+ new\)/, 'size',
        300, 4 ],
    [ 'C1', 'kill', 'sync', qr/account and account\.epoch == ticket\.epoch/,
        'account', undef, 27 ],
    # the log of the ended: not written, not read
    [ 'L[12]', 'kill', 'bye beat declared',
        qr/shard\.logged\[#shard\.logged \+ 1\] = session/, '',
        undef, 2 ],
    [ 'L[12]', 'kill', 'sync', qr/if behind == 0 then/, 'if true then', undef,
        5 ],
    # parked tickets: places not restored, a list lost, a place forgotten
    [ 'L2', 'stop', 'sync', qr/while account\.chunks > 0(?= and view\.steps > 0 do
        local members = queue_unlist\(sem, view, sem)/, 'while false', undef, 13 ],
    [ '(?:L2|C1)', 'stop', 'sync', qr/sem\.set\[#sem\.set \+ 1\] = 'parked:'/,
        "sem.set[#sem.set + 1] = 'lost:'", undef, 13 ],
    [ 'C1', 'order', 'sync', qr/then account_park\(sem, account, -1\) end/,
        'then return end', undef, 25 ],
    # a lost recall is not sent again
    [ 'L2', 'msg', 'sync', qr/again = again and/, 'again = false and', undef,
        35 ],
    # limit=auto: above the limit of another node
    [ 'S1a', 'auto', 'adjust', qr/limits_lowest\(limits\) or s\.found/,
        's.found', 300, 14 ],
    [ 'S1', 'order', 'order', qr/'stop' or 'grant'/,
        "'grant' or 'grant'", undef, 60 ],
) {
    my ($what, $faults, $which, $from, $to, $length, $hint) = @$_;
    my %which = map { $_ => 1 } split / /, $which;
    my $found = 0;
    my $broken = Model::Walk->load($client, sub {
        my $text = text($_[0]);
        $found += $text =~ s/$from/$to/g > 0 if $which{ $_[0] };
        return $text;
    });
    is $found, keys %which, "$which: broken for $what";
    my $seed = first { (walk($faults, $broken, $_, $length) // '')
        =~ /: $what / } $hint // (), 1 .. 96;
    ok $seed, "$which: $what seen";
    note "seed $seed" if $seed;
}

# and with tickets that have keys: a key's debt, its charges, the end of the queue,
# and which sessions learn of drops
for (
    [ 'K1', qr{sem\.fair\.F\[class \.\. ' ' \.\. key\] or }, '', 20 ],
    [ 'D1', qr/last\.place <= place/, 'false' ],
    [ 'D1', qr/sem\.waiting < most or sem\.waiting < before/, 'true', 4 ],
    [ 'C2', qr/in pairs\(call\.dropped\)/, 'in pairs({})' ],
    # a charge concerns later tickets only
    [ 'K2', qr/if #moved > 0 then/, 'if false then', undef, charges => 1 ],
    # a worker declares the places of before a charge
    [ 'K3', qr/ or ticket\.key then/, ' then', 4, charges => 1,
        faults => 'break', script => 'declare' ],
) {
    my ($what, $from, $to, $hint, %arg) = @$_;
    my ($faults, $script) = (delete $arg{faults} // 'none',
        delete $arg{script} // 'sync');
    my $found = 0;
    my $broken = Model::Walk->load($client, sub {
        my $text = text($_[0]);
        $found += $text =~ s/$from/$to/ if $_[0] eq $script;
        return $text;
    });
    is $found, 1, "with keys: broken for $what";
    my $seed = first { (walk($faults, $broken, $_, undef, fair => 1, %arg)
        // '') =~ /: $what / } $hint // (), 1 .. 96;
    ok $seed, "with keys: $what seen";
    note "seed $seed" if $seed;
}

# an empty semaphore forgets whom it has not told of dropped tickets
{
    my @queue = (fair => 1, queue => 1, limit => 2);
    my $found = 0;
    my $broken = Model::Walk->load($client, sub {
        my $text = text($_[0]);
        $found += $text =~ s/ and sem\.untold == 0(?= then$)//m;
        return $text;
    });
    is $found, 4, 'short queue: broken for C2';
    like walk('stop', $broken, 26, 120, @queue), qr/: C2 /,
        'short queue: C2 seen';
    is walk('stop', $scripts, 26, 120, @queue), undef, 'short queue: walk';
}

# and with workers that do not keep a rule, most of them about own permits
for (
    [ 'S1', 'away', 'fence', undef, 13 ],
    [ 'S1', 'break', 'sent', undef, 37 ],
    [ 'S1', 'away', 'expired', 200, 49 ],
    [ 'S1', 'away', 'counted', 200, 49 ],
    [ 'L2', 'wake', 'served', undef, 5 ],
) {
    my ($what, $faults, $rule, $length, $hint) = @$_;
    my $seed = first {
        (walk($faults, $scripts, $_, $length, broken => $rule) // '')
            =~ /: $what /
    } $hint // (), 1 .. 96;
    ok $seed, "workers, $rule: $what seen";
    note "seed $seed" if $seed;
}

my $text = do { local $/; <$from> } || die 'the other walks ended, see their log';
%bad = (%bad, %{ decode_json($text) });
for my $name (map { $_->[0] } @walks) {
    is @{ $bad{$name} }, 0, $name or diag join "\n", @{ $bad{$name} };
}

$client->cmd('FLUSHALL');
$redis->cmd('FLUSHALL');
$t->done;
