#!/usr/bin/perl

# The figures of the fleet: all nodes show the same, with the permits and the
# tickets of each node, and those of one semaphore with the lease of each
# session. However many ask, a worker reads them once a second. While Redis is
# down the last figures are shown, with their age.

use Digest::SHA qw(sha1_hex);
use JSON::PP qw(decode_json);
use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $up = $t->upstream;

my ($one, $two) = $t->fleet(2, <<'EOF_CONF');
worker_processes 1;
dsem_redis_timeout 1s;
dsem_reuse 60s;
location /reports {
    dsem reports limit=3 queue=10 timeout=30s;
    proxy_pass http://%%UPSTREAM%%;
}
location /quiet {
    dsem quiet:$arg_name limit=40 queue=10;
    proxy_pass http://%%UPSTREAM%%;
}
location /dsem/ {
    dsem_api;
}
EOF_CONF

# figures of all semaphores, or of one
sub figures {
    my ($node, $name) = @_;
    my $asked = $node->get('/dsem/semaphores' . ($name ? "/$name" : ''));
    return decode_json($asked->body);
}

sub semaphore {
    my ($node, $name) = @_;
    return +(grep { $_->{name} eq $name } @{ figures($node)->{semaphores} })[0];
}

# node => "in_use idle waiting sessions"
sub by_node {
    my ($semaphore) = @_;
    return { map { $_->{node} => "@$_{qw(in_use idle waiting sessions)}" }
        @{ $semaphore->{nodes} } };
}

# until the figures are as they should be: they may be a second old
sub shown {
    my ($node, $name, $test, $want) = @_;
    my $seen;
    eventually {
        $seen = semaphore($node, $name) // {};
        !grep { ($seen->{$_} // '') ne $want->{$_} } keys %$want;
    } $test or diag explain $seen;
    return $seen;
}

$redis->cmd(qw(CONFIG SET slowlog-max-len 100000));

my @running;
for my $node ($one, $one, $two) {
    push @running, $node->begin('/reports?hang=1');
    wait_for { $up->now == @running } 15, 'request running';
}
push @running, $two->begin('/reports?hang=1');
eventually { $t->state->waiting('reports') == 1 } 'one request waits';
$one->get('/quiet?name=a');

# all nodes show the same

for my $node ($one, $two) {
    my $name = $node->name;
    my $seen = shown($node, 'reports', "$name: fleet shown",
        { in_use => 3, waiting => 1, limit => 3, configured => 3 });
    is_deeply by_node($seen), { n1 => '2 0 0 1', n2 => '1 0 1 1' },
        "$name: by node";
    my $fleet = figures($node)->{fleet};
    is $fleet->{sessions}, 2, "$name: sessions counted";
    is_deeply [ map { { %$_, heartbeat => 0 } } @{ $fleet->{nodes} } ],
        [ map { { node => $_, sessions => 1, holding => 1, heartbeat => 0 } }
            qw(n1 n2) ], "$name: nodes with workers and holders";
    # no fraction in a whole second
    is scalar(grep { $_->{heartbeat} !~ /^[\d.]+$/ } @{ $fleet->{nodes} }),
        0, "$name: last heartbeats";
}

# an idle permit is told by a heartbeat, while the figures are asked for

my $idle = shown($two, 'reports', 'nothing idle', { idle => 0 });
my $quiet = shown($one, 'quiet:a', 'idle permit shown',
    { in_use => 0, idle => 1, limit => 40 });
is_deeply by_node($quiet), { n1 => '0 1 0 1' }, 'idle permit by node';

# one semaphore, with its sessions

my $named = figures($two, 'reports')->{semaphore};
is_deeply [ map { "@$_{qw(node worker held waiting)} $_->{heard}" }
    sort { $a->{node} cmp $b->{node} } @{ $named->{sessions} } ],
    [ 'n1 0 2 0 1', 'n2 0 1 1 1' ], 'sessions of one';
is_deeply [ sort map { $_->{session} } @{ $named->{sessions} } ],
    [ sort $t->state->sessions ], 'sessions named';
is scalar(grep { $_->{lease} < 1 || $_->{lease} > 5 }
    @{ $named->{sessions} }), 0, 'leases left';
is $one->get('/dsem/semaphores/unknown')->status, 404, 'unknown name';

# an order, and a name that no node has met

$t->state->order('elsewhere', '7 1');
my $ordered = shown($two, 'elsewhere', 'order shown', { limit => 7 });
is_deeply $ordered->{order}, { limit => 7, paused => JSON::PP::true },
    'order with its pause';
$t->state->drop_order('elsewhere');
eventually { !semaphore($two, 'elsewhere') } 'name forgotten';

# once a second

my $sha = sha1_hex($t->script('names'));
$redis->cmd(qw(CONFIG SET slowlog-log-slower-than 0));
$redis->cmd(qw(SLOWLOG RESET));
my ($began, $asked) = (now, 0);
while (now - $began < 1.1 || $asked < 60) {
    $_->wait for map { $one->begin('/dsem/semaphores') } 1 .. 20;
    $asked += 20;
}
my $lasted = now - $began;
$redis->cmd(qw(CONFIG SET slowlog-log-slower-than -1));
my $read = grep { $_->[3][0] eq 'EVALSHA' && $_->[3][1] eq $sha }
    @{ $redis->cmd(qw(SLOWLOG GET -1)) };
cmp_ok $read, '>=', 1, 'read from redis';
cmp_ok $read, '<=', 1 + $lasted, 'once a second';

# redis is down: the last figures, and their age

my $before = figures($one);
is $before->{redis}{state}, 'available', 'redis available';
is $before->{redis}{reason}, undef, 'no reason';
$began = now;
$redis->freeze;
eventually { figures($one)->{redis}{state} eq 'unavailable' }
    'redis unavailable';
my $down = figures($one);
like $down->{redis}{reason}, qr/no reply in time|connect/, 'reason shown';
is $down->{redis}{address}, $redis->address, 'address shown';
cmp_ok $down->{redis}{since}, '<=', now - $began, 'state for a while';
is_deeply by_node($down->{semaphores}[-1]), by_node($before->{semaphores}[-1]),
    'last figures shown';
my $age = $down->{fleet}{age};
cmp_ok $age, '>', 0.3, 'age shown';
cmp_ok $one->get('/dsem/semaphores')->took, '<', 0.5, 'answered at once';
eventually { figures($one)->{fleet}{age} > $age } 'age grows';
$redis->thaw;
eventually { figures($one)->{fleet}{age} <= 1 } 'read again';
# after most of a lease the state recovers first
eventually { figures($one)->{redis}{state} eq 'available' }
    'redis available again';

$up->release_all;
eventually { $up->now == 1 } 'queue served';
$up->release_all;
is $_->wait->status, 200, 'request served' for @running;

# with their idle permits
$_->quit for $one, $two;

$t->done;
