#!/usr/bin/perl

# Redis is emptied under load, with the connections open or cut, while one node
# cannot reach it. A new generation notifies all workers: running requests are
# declared before anything new is granted, and service resumes after about one
# lease.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Dsem::Test;

my $LEASE = 1;

my $t = Dsem::Test->new(lease => $LEASE);
my $redis = $t->redis;
my $up = $t->upstream(service => 0.020);

my $proxy = $t->proxy($redis->address);

my $conf = <<'EOF_CONF';
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    dsem_redis %%REDIS%%;
    dsem_node %%NODE%%;
    dsem_lease 1s;
    server {
        listen 127.0.0.1:%%PORT%%;
        location /emptied {
            dsem api limit=4 queue=100 timeout=20s;
            dsem_on_error reject;
            proxy_pass http://%%UPSTREAM%%;
        }
    }
}
EOF_CONF

my @fleet = $t->fleet(2, $conf);
$t->node('cut_off', $conf, REDIS => $proxy->address);

sub generation { return $t->state->shard('gen') // 0 }
sub held { return $t->state->held('api') }

# half of the permits with requests that outlive the loss, the rest in use

sub survives {
    my ($how, $lose) = @_;
    $up->reset;
    wait_for { $t->state->session_count == 3 } 15, 'all sessions';
    my @long = map { $_->begin('/emptied?hang=1') } @fleet;
    wait_for { $up->now == 2 } 15, 'long requests';
    my $load = $t->load_start(clients => 8, seconds => 3600,
        urls => [ map { $_->url('/emptied') } @fleet ]);
    wait_for { $up->peak == 4 && $up->served > 5 } 15, 'load';

    my $generation = generation();
    $proxy->freeze;
    $lose->();
    my $lost = now;
    eventually { generation() && generation() != $generation }
        "$how: new generation";
    eventually { held() >= 2 } "$how: permits declared";
    wait_for { !$redis->recovering } 15, 'the end of the recovery';
    my ($pause, $took, $served) = (now - $lost, took($lost), $up->served);
    wait_for { $up->served > $served + 20 } 15, 'service';
    my $statuses = $load->stop->wait->{statuses};
    $proxy->cut;
    $proxy->thaw;
    my @back = sort { $a <=> $b } grep { $_ > $lost + 0.3 }
        map { $_->{start} } $up->log;
    cmp_ok $pause, '>', $LEASE / 2, "$how: recovery waits for the third";
    cmp_ok $took, '<', $LEASE + 2, "$how: recovery lasts one lease";
    cmp_ok scalar(@back), '>', 20, "$how: service resumes";
    is $up->peak, 4, "$how: limit reached, never exceeded";
    is_deeply [ keys %$statuses ], [200], "$how: every request served"
        or diag explain $statuses;
    note sprintf '%s: over after %.2f s', $how, $pause;

    is $up->release_all, 2, "$how: long requests still running";
    is $_->wait->status, 200, "$how: long requests served" for @long;
    is scalar(map { $_->grep_log(qr/\[warn\].*lost its state/) } @fleet), 2,
        "$how: one line per worker";
    $_->clear_logs for @fleet;
}

survives('open', sub { $redis->cmd('FLUSHALL') });
survives('cut', sub {
    $redis->cmd('FLUSHALL');
    $redis->client_kill;
});

$t->done;
