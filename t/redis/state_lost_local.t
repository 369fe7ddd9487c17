#!/usr/bin/perl

# While Redis recovers its state, as one node cannot reach it, a worker continues
# with the permits that it held (dsem_on_error local). A worker without permits
# gets none before the recovery is over.

use lib 't/lib';
use Dsem::Test;

my $LEASE = 1.5;

my $t = Dsem::Test->new(lease => $LEASE);

my $conf = <<'EOF_CONF';
worker_processes 1;
dsem_lease 1500ms;
proxy_set_header X-Node %%NODE%%;
location /local {
    dsem api limit=4 queue=100 timeout=20s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

# a fleet with a Redis of its own for each way: both at the same time
sub fleet {
    my ($how, $lose) = @_;
    my $redis = $t->redis;
    my $proxy = $t->proxy($redis->address);
    my $up = $t->upstream;
    my ($has, $none) = map { $t->node("$_-$how", $conf) } qw(has none);
    $t->node("cut_off-$how", $conf, REDIS => $proxy->address);
    return { how => $how, lose => $lose, redis => $redis, proxy => $proxy,
        state => Dsem::State->new($redis), up => $up, has => $has,
        none => $none };
}

sub full {
    my ($fleet) = @_;
    my ($up, $redis, $has) = @$fleet{qw(up redis has)};
    # each has seen the others: else the census would not wait for all of them
    $redis->all_beat(3);
    # of several lengths: permits that are on their way back are lost, too
    my @urls = map { $has->url("/local?t=$_") } 31, 47, 61, 83;
    $fleet->{load} = $t->load_start(urls => \@urls,
        clients => 6, seconds => 3600);
    wait_for { $up->now == 4 && $up->served > 4 } 15, 'all permits out';
}

sub loses {
    my ($fleet) = @_;
    my ($state, $redis) = @$fleet{qw(state redis)};
    my $generation = $state->shard('gen') // 0;
    $fleet->{lost} = now;
    $fleet->{proxy}->freeze;
    $fleet->{lose}->($redis);
    wait_for { ($state->shard('gen') || $generation) != $generation } 15,
        'the loss';
    $fleet->{other} = $fleet->{none}->begin('/local?t=50');
}

sub goes_on {
    my ($fleet) = @_;
    my ($how, $up, $lost, $has) = @$fleet{qw(how up lost has)};
    is $fleet->{other}->wait->status, 200, "$how: no permit: served later";
    my $none = $fleet->{none}->name;
    my ($back) = map { $_->{start} } grep { $_->{node} eq $none } $up->log;
    cmp_ok $back - $lost, '>', $LEASE / 2, "$how: no new grant";

    $fleet->{proxy}->cut;
    $fleet->{proxy}->thaw;
    my $statuses = $fleet->{load}->stop->wait->{statuses};
    my @between = grep { $_->{start} > $lost + 0.2 && $_->{start} < $back }
        $up->log;
    my @own = grep { $_->{node} eq $has->name } @between;
    cmp_ok scalar(@own), '>', 4, "$how: holder serves";
    is scalar(@between), scalar(@own), "$how: other worker waits";
    is_deeply [ keys %$statuses ], [200], "$how: every request served";
    is $up->peak, 4, "$how: limit reached, never exceeded";
    my %said = map { $_->{dsem_status} => 1 } $has->access_log;
    ok !$said{DEGRADED}, "$how: its permits are counted";
    note sprintf '%s: %d served in %.2f s', $how, scalar(@own), $back - $lost;
}

my @fleets = (
    fleet('open', sub { $_[0]->cmd('FLUSHALL') }),
    fleet('cut', sub {
        $_[0]->cmd('FLUSHALL');
        $_[0]->client_kill;
    }),
);
full($_) for @fleets;
loses($_) for @fleets;
goes_on($_) for @fleets;

$t->done;
