#!/usr/bin/perl

# Whatever may leave a permit free beside a ticket makes a worker ask at once,
# not with the check of its next poll: an end of its declaration or of a
# recovery, a late heartbeat, a permit that came free while it was not
# connected, a configuration with a lower limit that leaves. A sync without
# checks is no poll.

use lib 't/lib';
use Dsem::Scripts;

# where a poll falls into the same turn of the event loop, it asks instead
my $TRIES = 5;

my $t = Dsem::Test->new(lease => 2);
my $redis = $t->redis;
my $up = $t->upstream;
my $state = $t->state;
my %way = map { $_ => $t->proxy($redis->address) } qw(holds waits);

my $conf = <<'EOF_CONF';
worker_processes 1;
dsem_lease %%LEASE%%;
dsem_reuse off;
location / {
    dsem api limit=2 queue=10 timeout=1h;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

# an account without tickets is checked once a lease, by such a sync
my %lease = (holds => '1h', waits => '2s');
my %node = map { $_ => $t->node($_, $conf, LEASE => $lease{$_},
    REDIS => $way{$_}->address) } sort keys %way;

my $monitor = $t->client->raw('127.0.0.1', $redis->port);
$monitor->send("MONITOR\r\n")->read_until(qr/OK/);
my $text = '';

# What a node sends: syncs that neither ask, cancel nor check, and heartbeats.
my %seen;
sub look {
    my $queue = $state->queue_key('api');
    while (length(my $more = $monitor->read(0))) { $text .= $more }
    $text =~ s/\A(.*\n)//s or return;
    for (split /\n/, $1) {
        $seen{$1}++ if /"\Q$queue\E" "(\w+):[^"]*" "[\d ]* 0 0 0" "api"/;
        $seen{"$1 beats"}++ if /"PUBLISH" "[^"]*:c:(\w+):[^"]*" "[^"]*beat \d/i;
    }
}

# Whether it sends such a sync within three heartbeats.
sub asks_now {
    my ($node, $do) = @_;
    look();
    %seen = ();
    $do->();
    wait_for { look(); $seen{$node} || ($seen{"$node beats"} // 0) > 3 } 15,
        'heartbeats';
    return $seen{$node};
}

# of the connection for commands
sub id_of {
    my ($node) = @_;
    my ($id) = map { /^id=(\d+) / } grep { /name=dsem-$node-0 / && / sub=0 psub=0 / }
        split /\n/, $redis->cmd(qw(CLIENT LIST));
    return $id;
}

sub session { return grep { /^$_[0]:/ } $state->sessions }

sub asks {
    my ($node, $what, $do) = @_;
    my $try = 1;
    $try++ until asks_now($node, $do) || $try == $TRIES;
    cmp_ok $try, '<', $TRIES, "$what: asks at once";
}

# the first one is the first at the backend, too, and ends first
my @holders;
for my $n (1, 2) {
    push @holders, $node{holds}->begin('/?hang=1');
    wait_for { $up->now == $n } 15, 'permits out';
}
my $waiting = $node{waits}->begin('/?hang=1');
wait_for { $state->waiting('api') == 1 } 15, 'one request queued';

# a heartbeat that this machine delays is a late one
my $polls;
for (1 .. $TRIES) { last if $polls = !asks_now('waits', sub { }) }
ok $polls, 'only polls while it waits';

asks('waits', 'declared', sub {
    my ($session) = session('waits');
    my $epoch = $state->entry($session)->{epoch};
    # a new subscription would make it check
    $redis->cmd(qw(CLIENT KILL ID), id_of('waits'));
    wait_for { $state->entry($session)->{declared} > $epoch } 15, 'declared';
});

# as if it had missed heartbeats
asks('waits', 'late beat', sub {
    my ($session) = session('waits');
    my ($field, $text) = ($state->key, $redis->cmd('HGET', $state->key,
        $session));
    $redis->cmd('HSET', $field, $session,
        $text =~ s/^(\d+ \d+ \d+ )(\d+)/$1 . ($2 - 3000)/er);
});

asks('waits', 'recovered', sub {
    $state->set_shard(recover_until => 500 + $state->shard('clock'));
});

# with a limit that is lower than the permits held
my $scripts = Dsem::Scripts->new($t, redis => $redis, clock => 'redis');
asks('waits', 'limit raised', sub {
    my $other = $scripts->session('other')->configured('c1', { api => 1 });
    wait_for { $state->lowest_limit('api') == 1 } 15, 'lower limit';
    $other->bye;
});
is $state->lowest_limit('api'), 2, 'limit raised';

# a release that is lost with its connection
look();
%seen = ();
my ($session) = session('holds');
my $epoch = $state->entry($session)->{epoch};
$way{holds}->swallow(match => ':q:api', dir => 'c2s');
$up->release(1);
is $holders[0]->wait->status, 200, 'holder served';
wait_for { $way{holds}->swallowed } 15, 'sent, and lost';
$way{holds}->swallow;
$way{holds}->cut;
wait_for { $state->entry($session)->{declared} > $epoch } 15, 'declared';
eventually { $up->now == 2 } 'waiting request served';
eventually { look(); $seen{holds} } 'release lost: asks at once';

$up->release_all;
is $_->wait->status, 200, 'request ends' for $holders[1], $waiting;
is $up->peak, 2, 'limit reached, never exceeded';

$t->done;
