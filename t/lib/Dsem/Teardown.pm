package Dsem::Teardown;

# Checks at the end of every test: it must leave nothing behind. Each check
# returns its findings, one line each.
#
# Called by: Dsem::Test (done), once, with everything still running.

use strict;
use warnings;

use Test::More ();

use constant COUNT => 4;

use Dsem::State;
use Dsem::Wait qw(poll);

my $builder = Test::More->builder;

sub check {
    my ($t) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 2;
    recover($t);
    report('no permit and no ticket left', wait_for_redis($t));
    report('all nodes quit', quit_nodes($t));
    report('no worker died', dead_workers($t));
    report('no alert logged', alerts($t));
}

sub report {
    my ($name, @wrong) = @_;
    $builder->ok(!@wrong, $name);
    $builder->diag("  $_") for @wrong;
}

# Undoes the faults of the test: frozen processes continue, its load ends.
sub recover {
    my ($t) = @_;
    $_->end for grep { $_->alive } map { $_->{process} } $t->loads;
    $_->thaw for $t->nodes;
    for my $redis (@{ $t->{redis} }) {
        $redis->thaw if $redis->{frozen};
    }
    for my $up (@{ $t->{upstreams} }) {
        $up->release_all if $up->process->alive;
    }
}

###########################################################################
# Redis

# Waits for the time that a dead session may hold permits. A test without nodes
# has simulated the sessions itself and is not checked. A server that was
# replaced as the master has a state of earlier.
sub wait_for_redis {
    my ($t) = @_;
    return unless $t->nodes;
    # R5: heartbeat
    my $heartbeat = $t->{lease} / 5 < 1 ? $t->{lease} / 5 : 1;
    my $timeout = $t->{lease} + 2 * $heartbeat + 1;
    my @left;
    poll(sub {
        @left = map { left_in($_) } grep { $_->running && !$_->{replaced} }
            @{ $t->{redis} };
        return left_count(@left) == $t->{expect_held};
    }, $timeout) and return;
    return map { $_->{text} } @left if @left;
    return "nothing is held, where $t->{expect_held} was expected";
}

sub left_count {
    my $n = 0;
    $n += $_->{n} for @_;
    return $n;
}

# Permits and tickets of live sessions, and sums that differ from the accounts,
# in all shards.
sub left_in {
    my ($redis) = @_;
    my @clients = $redis->can('clients') ? $redis->clients : $redis->client;
    return map {
        my $state = $_;
        my $live = live_sessions($state);
        map { left_of($state, $_, $live) } $state->names;
    } map { Dsem::State->all($_) } @clients;
}

sub left_of {
    my ($state, $name, $live) = @_;
    my ($figures, $accounts) = $state->semaphore($name);
    my ($held, $waiting, @left) = (0, 0);
    for my $session (sort keys %$accounts) {
        my ($epoch, $h, $w) = @{ $accounts->{$session} }{
            qw(epoch held waiting) };
        $held += $h;
        $waiting += $w;
        my $declared = $live->{$session} // next;
        next if $epoch < $declared || !$h && !$w;
        push @left, { n => $h + $w, text => "$name: $session: "
            . "$h held, $w waiting" };
    }
    my ($all_held, $all_waiting) = map { $_ // 0 }
        @$figures{qw(held waiting)};
    for my $ticket (keys %{ $state->places($name) }) {
        my ($session, $epoch) = split ' ', $ticket;
        my $declared = $live->{$session} // next;
        push @left, { n => 1, text => "$name: in the queue: $ticket" }
            if $epoch >= $declared;
    }
    push @left, { n => 1, text => "$name: $all_held held, $all_waiting "
        . "waiting, but $held and $waiting in the accounts" }
        if $all_held != $held || $all_waiting != $waiting;
    return @left;
}

# session => the epoch below which an account is void. A session with an expired
# lease is not live, even if no beat has removed it yet.
sub live_sessions {
    my ($state) = @_;
    my ($clock, $wall) = $state->shard(qw(clock wall));
    my ($s, $us) = @{ $state->cmd('TIME') };
    my $now = ($clock // 0) + $s * 1000 + $us / 1000
        - ($wall // $s * 1000 + $us / 1000);
    my $ends = $state->lease_ends;
    my $entries = $state->entries;
    return { map { $_ => ($entries->{$_} // {})->{declared} // 0 }
        grep { $ends->{$_} > $now } keys %$ends };
}

###########################################################################
# nginx

sub quit_nodes {
    my ($t) = @_;
    $_->signal('QUIT') for grep { $_->alive } $t->nodes;
    return map {
        my $node = $_;
        poll(sub { !$node->alive }, 10) ? ended($node)
            : $node->name . ' is still there after 10 s, workers '
                . join ' ', $node->workers, $node->draining;
    } $t->nodes;
}

# Of the master, or of the only process.
sub ended {
    my ($node) = @_;
    my $status = $node->{process} && $node->{process}->status;
    return !$status || $node->killed->{ $node->pid } ? ()
        : sprintf '%s ended with %d, signal %d', $node->name, $status >> 8,
            $status & 127;
}

sub log_lines {
    my ($t, $re) = @_;
    return map {
        my $name = $_->name;
        map { "$name: $_" } grep {
            my $line = $_;
            !grep { $line =~ $_ } @{ $t->{expected} };
        } $_->grep_log($re), grep { /$re/ } $_->cleared,
            split /\n/, $_->_slurp('output');
    } $t->nodes;
}

sub dead_workers {
    my ($t) = @_;
    my %killed = map { %{ $_->killed } } $t->nodes;
    return grep {
        my ($pid) = /process (\d+) exited/;
        !$killed{ $pid // 0 };
    } log_lines($t, qr/ process \d+ exited (?:on signal|with (?:fatal )?code [1-9])/);
}

sub alerts {
    my ($t) = @_;
    my $bad = qr/\[(?:alert|emerg)\]|Sanitizer|runtime\ error:
        |^==\d+==\s+(?:Invalid|Conditional|Use\ of|Source|Syscall)/x;
    return grep { !/ process \d+ exited (?:on signal|with fatal)/ }
        log_lines($t, $bad);
}

1;
