#!/usr/bin/perl

# While Redis recovers its state, as one node cannot reach it, a worker continues
# with the permits that it held (dsem_on_error local). A worker without permits
# gets none before the recovery is over.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Dsem::Test;

my $LEASE = 1.5;

my $t = Dsem::Test->new(lease => $LEASE);
my $redis = $t->redis;
my $up = $t->upstream;

my $proxy = $t->proxy($redis->address);

my $conf = <<'EOF_CONF';
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    dsem_redis %%REDIS%%;
    dsem_node %%NODE%%;
    dsem_lease 1500ms;
    server {
        listen 127.0.0.1:%%PORT%%;
        proxy_set_header X-Node %%NODE%%;
        location /local {
            dsem api limit=4 queue=100 timeout=20s;
            proxy_pass http://%%UPSTREAM%%;
        }
    }
}
EOF_CONF

my ($has, $none) = $t->fleet(2, $conf);
$t->node('cut_off', $conf, REDIS => $proxy->address);

sub generation { return $t->state->shard('gen') // 0 }

sub goes_on {
    my ($how, $lose) = @_;
    $up->reset;
    wait_for { $t->state->session_count == 3 } 15, 'all sessions';
    # of several lengths: permits that are on their way back are lost, too
    my @urls = map { $has->url("/local?t=$_") } 31, 47, 61, 83;
    my $load = $t->load_start(urls => \@urls,
        clients => 6, seconds => 3600);
    wait_for { $up->now == 4 && $up->served > 4 } 15, 'all permits out';

    my $generation = generation();
    my $lost = now;
    $proxy->freeze;
    $lose->();
    wait_for { generation() && generation() != $generation } 15, 'the loss';
    my $other = $none->begin('/local?t=50');
    is $other->wait->status, 200, "$how: no permit: served later";
    my ($back) = map { $_->{start} } grep { $_->{node} eq 'n2' } $up->log;
    cmp_ok $back - $lost, '>', $LEASE / 2, "$how: no new grant";

    $proxy->cut;
    $proxy->thaw;
    my $statuses = $load->stop->wait->{statuses};
    my @between = grep { $_->{start} > $lost + 0.2 && $_->{start} < $back }
        $up->log;
    my @own = grep { $_->{node} eq 'n1' } @between;
    cmp_ok scalar(@own), '>', 4, "$how: holder serves";
    is scalar(@between), scalar(@own), "$how: other worker waits";
    is_deeply [ keys %$statuses ], [200], "$how: every request served";
    is $up->peak, 4, "$how: limit reached, never exceeded";
    my %said = map { $_->{dsem_status} => 1 } $has->access_log;
    ok !$said{DEGRADED}, "$how: its permits are counted";
    note sprintf '%s: %d served in %.2f s', $how, scalar(@own), $back - $lost;
    $_->clear_logs for $has, $none;
}

goes_on('open', sub { $redis->cmd('FLUSHALL') });
goes_on('cut', sub {
    $redis->cmd('FLUSHALL');
    $redis->client_kill;
});

$t->done;
