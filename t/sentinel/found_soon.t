#!/usr/bin/perl

# The master is gone for a while, so that the pauses between attempts to
# connect are long. A worker is at another master some 200 ms after a sentinel
# names it, and makes few attempts to connect until then.

use lib 't/lib';
use Dsem::Test;

my $ROUNDS = $ENV{DSEM_LONG} ? 10 : 2;

my $t = Dsem::Test->new;
my $set = $t->sentinel(servers => 1, sentinels => 0);
my $up = $t->upstream;
my @server = ($set->master, $t->redis);

# three at a time, each with its own name of the master
my @fleet = map {
    # closes each connection, as a port without a server does
    my $nowhere = $t->proxy('127.0.0.1:' . $t->free_port);
    my $guide = $set->watch("master$_", $server[0]->address);
    my $node = $t->node("n$_", <<'EOF_CONF', GUIDE => $guide->address,
worker_processes 1;
dsem_redis %%GUIDE%% mode=sentinel master=%%NAME%%;
dsem_redis_connect_timeout 500ms;
dsem_redis_timeout 1s;
location / {
    dsem api limit=2 queue=10;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF
        NAME => "master$_");
    { nowhere => $nowhere, guide => $guide, name => "master$_",
        node => $node };
} 1 .. 3;

# another server each time, as a worker that is removed has to connect
sub here {
    my ($n, $of) = @_;
    my $name = $of->{node}->name;
    return scalar grep { /^$name:/ }
        Dsem::State->new($server[ $n % 2 ])->sessions;
}

sub name_master {
    my ($of, $address) = @_;
    $set->name_master(@$of{qw(guide name)}, $address);
}

my @took;
my ($attempts, $seconds) = (0, 0);
eventually { 3 == grep { here(0, $_) } @fleet } 'sessions at the first master';
for my $n (1 .. $ROUNDS) {
    my ($lost, $next) = @server[ ($n - 1) % 2, $n % 2 ];
    for (@fleet) {
        name_master($_, $_->{nowhere}->address);
        $_->{before} = $_->{nowhere}->accepted;
    }
    my $gone = now;
    $lost->empty;
    for my $i (0 .. 2) {
        my $of = $fleet[$i];
        # after the short pauses, at any moment of a long one
        my $long = 1.4 + (2 * $i + $n % 2) * 0.12;
        wait_for { now > $gone + $long } 15, 'long pauses';
        $attempts += $of->{nowhere}->accepted - $of->{before};
        $seconds += now - $gone;
        name_master($of, $next->address);
        my $named = now;
        wait_for { here($n, $of) } 15, 'session at the next master';
        push @took, took($named);
    }
}
my @sorted = sort { $a <=> $b } @took;
note join ' ', map { sprintf '%.3f', $_ } @sorted;
# a busy machine may delay one of them
cmp_ok $sorted[-2], '<', 0.4, 'found soon';
# both connections of the worker
note sprintf '%.2f attempts/s', $attempts / $seconds;
cmp_ok $attempts / $seconds, '<', 2 * 4, 'few attempts';
is $_->{node}->get('/?t=1')->status, 200, 'request served' for @fleet;

$t->done;
