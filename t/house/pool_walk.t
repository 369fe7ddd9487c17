#!/usr/bin/perl

# Random walks over the real scripts with a pool: each permit has a server. What
# is checked stands in model/Model/PoolWalk.pm. A walk that ends badly is shown,
# command by command, by t/model/walk pool SEED STEPS.

use warnings;
use strict;

use Test::More;

use FindBin;
use List::Util qw(first);
use lib "$FindBin::Bin/../lib", "$FindBin::Bin/../model";

use Dsem::Test;
use Model::PoolWalk;

# the walks change the text of the scripts
delete $ENV{DSEM_LUA};

my $t = Dsem::Test->new;
my $client = Model::Client->new($t->redis->unix);
my (%text, %seen);
my ($walks, $steps) = $ENV{DSEM_LONG} ? (400, 300) : (8, 100);

# of a script, which is assembled once
sub text {
    my ($name) = @_;
    return $text{$name} //= $t->script($name);
}

sub walk {
    my ($scripts, $seed, $length) = @_;
    my $walk = Model::PoolWalk->new($client, $scripts, $seed);
    my $bad = $walk->run($length);
    $seen{$_} += $walk->seen->{$_} for keys %{ $walk->seen };
    return $bad ? "t/model/walk pool $seed $length: $bad" : ();
}

for my $small (0, 3) {
    my $scripts = Model::PoolWalk->load($client, \&text, $small);
    my @bad = map { walk($scripts, $_, $steps) } 1 .. $walks;
    is @bad, 0, $small ? 'walks in small steps' : 'walks'
        or diag join "\n", @bad;
}
# with other numbers of the same generator each is there, too
cmp_ok $seen{$_} // 0, '>', 0, "seen: $_"
    for 'served', 'kill', 'lost message', 'late cancel', 'server',
    'order of a server', 'own list';

# The walk itself is tested with scripts that are broken on purpose; the last
# number is a seed that has seen it.
for (
    # an account that is void keeps its servers
    [ 'C1', 'sync', qr/if sem\.pool then pools\.void\(sem, account\) end/, '',
        0, 5 ],
    [ 'C1', 'declare', qr/do pool_add\(sem, account, server, n\) end/,
        'do account_add(sem, account, n, 0) end', 0, 1 ],
    [ 'C1', 'sync', qr/do pool_add\(sem, account, server, -n\) end/,
        'do account_add(sem, account, -n, 0) end', 0, 1 ],
    # the limit of a server, and that of all
    [ 'S1', 'sync', qr/pool_limit\(view, server, list\.limits\[server\]\)/,
        'list.limits[server]', 0, 3 ],
    [ 'S1', 'sync', qr/pool_limit\(view, server, list\.limits\[server\]\)/,
        'view.limit', 0, 17 ],
    [ 'S1', 'order', qr/pool_limit\(view, server, list\.limits\[server\]\)/,
        'list.limits[server]', 0, 11 ],
    # the order of one server
    [ 'S1', 'sync', qr/pool_limit\(view, server, list\.limits\[server\]\)/,
        'math.min(list.limits[server], view.limit)', 0, 27 ],
    [ 'L2', 'order', qr/servers\[server\] = tonumber\(limit\)/,
        'servers[server] = tonumber(limit) or 0', 0, 11 ],
    # the head waits for its servers, and others behind it for theirs
    [ 'L2', 'sync', qr/pool\.last, ticket\.place\s+end\s+return 'skip'/,
        "pool.last, ticket.place\n    end\n    return 'stop'", 0, 1 ],
    # the list of this call is new
    [ 'L2', 'sync',
        qr/if view\.list and pool_choose\(sem, view, view\.list\)/,
        'if false', 0, 121 ],
    # a list that is full is full for this call only
    [ 'L2', 'sync', qr/if not best then pool\.full\[id\] = true end/,
        'pool.full[id] = true', 0, 1 ],
    [ 'C1', 'sync', qr/\(lists\[after\] or 0\) \+ 1/, 'lists[after] or 1', 0,
        1 ],
    # the cursor, and what sets it back
    [ 'L2', 'sync', qr/if free\(sem, view, id\) then pool\.cursor = nil/,
        'if false then pool.cursor = nil', 2, 36 ],
    # of tickets with equal places it may have met only some
    [ 'L2', 'sync', qr/pool\.before or pool\.last or/, 'pool.last or', 2,
        1441 ],
    [ 'L2', 'sync', qr/if call\.moved then/, 'if false then', 2, 19 ],
    [ 'L2', 'sync', qr/if sem\.pool\.cursor and place <= sem\.pool\.cursor/,
        'if false', 2, 253 ],
    # own lists: their servers are noticed, and what is free beyond them
    [ 'L2', 'sync', qr/for id in pairs\(sem\.pool\.lists\) do
        if pool_free/, "for id in pairs(sem.pool.lists) do
        if id ~= '*' and pool_free", 3, 9002 ],
    [ 'L2', 'sync', qr/if not had or joined ~= had\.text then/,
        'if not had then', 3, 9086 ],
    [ 'L2', 'sync', qr/if not pool\.room\s+or .*?then/s, 'if server then', 3,
        20128 ],
    # idle permits: all go back where a ticket waits, any may be at the server
    # that it can use; and those of a server with a lowered limit
    [ 'L2', 'sync',
        qr/if sem\.pool and wanted > 0 then wanted = math\.huge end/, '', 0,
        2 ],
    [ 'L2', 'sync', qr/and \(view\.over or sem\.held - view\.limit\) <= 0/, '',
        0, 6 ],
    [ 'L2', 'sync', qr/math\.max\(view\.over or sem\.held - view\.limit, 0\)/,
        '0', 0, 6 ],
    [ 'L2', 'order', qr/math\.max\(view\.over or sem\.held - view\.limit, 0\)/,
        'math.max(sem.held - view.limit, 0)', 0, 6 ],
    # a request is granted past tickets that were not looked at
    [ '(?:L2|F1)', 'sync', qr/if view\.paused or not walked then/,
        'if view.paused then', 2, 2 ],
    # a call has granted as many as it may
    [ 'L2', 'sync', qr/view\.more = true\s+return FIRST_UNKNOWN/,
        'return FIRST_UNKNOWN', 3, 4 ],
) {
    my ($what, $which, $from, $to, $small, $hint) = @$_;
    my $found = 0;
    my $broken = Model::PoolWalk->load($client, sub {
        my $text = text($_[0]);
        $found += $text =~ s/$from/$to/ if $_[0] eq $which;
        return $text;
    }, $small);
    is $found, 1, "$which: broken for $what";
    my $seed = first {
        grep { /: step .*?: $what / } walk($broken, $_, 120)
    } $hint, 1 .. 96;
    ok $seed, "$which: $what seen";
    note "seed $seed" if $seed;
}

$client->cmd('FLUSHALL');
$t->done;
