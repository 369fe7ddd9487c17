#!/usr/bin/perl

# Planned failovers under load: the workers follow the sentinels to the new
# master while the old one still replies. No request is refused, the limit is
# reached and never exceeded, and the new master soon grants. DSEM_LONG=1: ten
# failovers.

use lib 't/lib';
use Dsem::Test;

my ($LIMIT, $WORKERS) = (6, 6);
my $ROUNDS = $ENV{DSEM_LONG} ? 10 : 1;

my $t = Dsem::Test->new;
my $set = $t->sentinel;
my $up = $t->upstream(service => 0.100);

my @fleet = $t->fleet(3, <<'EOF_CONF');
worker_processes 2;
dsem_redis %%SENTINELS%% mode=sentinel master=%%MASTER%%;
dsem_redis_connect_timeout 3s;
dsem_redis_timeout 3s;
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
    $set->failover;
    my $at = $set->replaced($old);
    my $new = $at->{master};
    # before the silence of the old one is noticed
    eventually { subscribed($new) == $WORKERS && !subscribed($old) }
        "$n: messages from the new master", 2;
    wait_for { $set->master == $new } 30, 'the new master named';
    # on the new master, with permits that it has granted
    my $served = $up->served;
    wait_for { $up->served > $served + 30 } 30, 'more requests served';
    $load->stop;
    my $result = $load->wait;
    is_deeply [ keys %{ $result->{statuses} } ], [ 200 ],
        "$n: no request refused";
    is $up->peak, $LIMIT, "$n: limit reached, never exceeded";
    is scalar(grep { $_->grep_log(qr/ is the master now\), reconnecting/) }
        @fleet), @fleet, "$n: change of the master logged";
    is scalar(map { $_->grep_log(qr/\[error\]/) } @fleet), 0,
        "$n: no error logged";
    cmp_ok took(@$at{qw(found granting)}), '<', 1, "$n: soon grants again";
    my %status;
    $status{ $_->{dsem_status} }++ for map { $_->access_log } @fleet;
    note sprintf '%d: named after %.3f s, found after %.3f s, '
        . 'grants after %.3f s, %.3f s without grants; longest time '
        . 'without a start %.3f s, longest request %.3f s; %s', $n,
        $at->{named} - $at->{writable}, $at->{found} - $at->{writable},
        $at->{granting} - $at->{writable}, $at->{granting} - $at->{found},
        pause(), $result->{max},
        join ' ', map { "$_ $status{$_}" } sort keys %status;
}

for my $n (1 .. $ROUNDS) {
    $set->settle if $n > 1;
    round($n);
}

$t->done;
