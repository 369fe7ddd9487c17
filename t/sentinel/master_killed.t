#!/usr/bin/perl

# The master is killed under load. The workers ask the sentinels until these
# name another one, which soon grants; until then the permits of a worker serve
# its own requests. The limit is never exceeded. DSEM_LONG=1: five times.

use lib 't/lib';
use Dsem::Test;

my ($LIMIT, $WORKERS) = (6, 6);
my $ROUNDS = $ENV{DSEM_LONG} ? 5 : 1;

my $t = Dsem::Test->new;
my $set = $t->sentinel;
my $up = $t->upstream(service => 0.100);

my @fleet = $t->fleet(3, <<'EOF_CONF');
worker_processes 2;
dsem_redis %%SENTINELS%% mode=sentinel master=%%MASTER%%;
dsem_redis_connect_timeout 500ms;
dsem_redis_timeout 1s;
location /waits {
    dsem api limit=6 queue=1000 timeout=60s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

sub subscribed {
    my ($redis) = @_;
    return Dsem::State->new($redis)->subscribed;
}

# The longest time without a start at the upstream.
sub pause {
    my @start = sort { $a <=> $b } map { $_->{start} } $up->log;
    return (sort { $a <=> $b } map { $start[$_] - $start[$_ - 1] }
        1 .. $#start)[-1];
}

sub round {
    my ($n) = @_;
    my $old = $set->master;
    my $state = Dsem::State->new($old);
    wait_for { $state->session_count == $WORKERS && !$state->recovering } 30,
        'all sessions';
    $up->reset;
    $_->clear_logs for @fleet;
    my $load = $t->load_start(urls => [ map { $_->url('/waits') } @fleet ],
        clients => 20, seconds => 3600, timeout => 70);
    wait_for { $up->peak == $LIMIT } 15, 'limit reached';
    my $killed = now;
    $old->kill;
    my $at = $set->replaced($old);
    my $new = $at->{master};
    wait_for { $set->master == $new } 30, 'the new master named';
    # on the new master, with permits that it has granted
    my $served = $up->served;
    wait_for { $up->served > $served + 30 } 30, 'more requests served';
    $load->stop;
    my $result = $load->wait;
    my $refused = $result->{count} - ($result->{statuses}{200} // 0);
    is $refused, 0, "$n: no request refused";
    is $up->peak, $LIMIT, "$n: limit reached, never exceeded";
    # which on a busy machine is that nothing replied in time
    my $cause = qr/connect failed: Conn|connect timed out|no sentinel replies/;
    is scalar(grep { $_->grep_log(qr/ unavailable \((?:$cause)/) } @fleet),
        @fleet, "$n: loss logged with its cause";
    # once it has lasted for a heartbeat
    eventually { @fleet == grep { $_->grep_log(qr/ available again /) } @fleet }
        "$n: return logged";
    # which is up to a second after the promotion
    cmp_ok took(@$at{qw(named granting)}), '<', 0.6,
        "$n: grants again, soon after a sentinel names it";
    # a busy machine may cause another failover
    eventually { subscribed($set->master) == $WORKERS }
        "$n: messages from the new master";
    my %status;
    $status{ $_->{dsem_status} }++ for map { $_->access_log } @fleet;
    note sprintf '%d: promoted %.3f s after the kill, named after %.3f s, '
        . 'found after %.3f s, '
        . 'grants after %.3f s, %.3f s in recovery; longest time '
        . 'without a start %.3f s, longest request %.3f s; %s', $n,
        $at->{writable} - $killed, $at->{named} - $at->{writable},
        $at->{found} - $at->{writable},
        $at->{granting} - $at->{writable}, $at->{granting} - $at->{found},
        pause(), $result->{max},
        join ' ', map { "$_ $status{$_}" } sort keys %status;
    $old->start;
}

for my $n (1 .. $ROUNDS) {
    $set->settle if $n > 1;
    round($n);
}

$t->done;
