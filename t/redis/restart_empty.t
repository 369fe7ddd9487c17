#!/usr/bin/perl

# Redis loses its state under load: restarted without persistence, or emptied
# while the connections stay open. Running requests are declared before
# anything new is granted, and service resumes after one lease at most.

use lib 't/lib';
use Dsem::Test;

my ($LIMIT, $LEASE) = (6, 1.5);

my $t = Dsem::Test->new(lease => $LEASE);
my $redis = $t->redis;
my $up = $t->upstream(service => 0.020);

my @fleet = $t->fleet(3, <<'EOF_CONF');
worker_processes 1;
dsem_on_error reject;
dsem_lease 1500ms;
location /declared {
    dsem api limit=6 queue=500 timeout=10s;
    dsem_status 503 error=500;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

# Half of the permits are with requests that outlive the loss.
sub survives {
    my ($how, $lose) = @_;
    $up->reset;
    my @long = map { $_->begin('/declared?hang=1') } @fleet;
    wait_for { $up->now == 3 } 15, 'long requests';
    my $load = $t->load_start(
        urls => [ map { $_->url('/declared') } @fleet ],
        clients => 10, seconds => 3600);
    wait_for { $up->peak == $LIMIT && $up->served > 5 } 15, 'load';

    $lose->();
    my $lost = now;
    wait_for { $t->state->shard('gen') && !$redis->recovering } 15,
        'the recovery';
    my $recovered = now;
    my $served = $up->served;
    wait_for { $up->served > $served + 120 } 15, 'service';
    my $result = $load->stop->wait;
    my $back = (grep { $_ > $lost } sort { $a <=> $b }
        map { $_->{start} } grep { $_->{uri} !~ /hang/ } $up->log);
    my ($first) = grep { $_ > $recovered } sort { $a <=> $b }
        map { $_->{start} } $up->log;
    cmp_ok took($lost, $first), '<', $LEASE + 2.5, "$how: service resumes";
    cmp_ok $back, '>', 20, "$how: many requests served";
    is $up->peak, $LIMIT, "$how: limit reached, never exceeded";
    is $result->{statuses}{timeout}, undef, "$how: every request answered";
    eventually { $t->state->held('api') == 3 } "$how: permits declared";
    my %status = %{ $result->{statuses} };
    delete @status{qw(200 500)};
    is_deeply \%status, {}, "$how: no other statuses";
    is $up->release_all, 3, "$how: long requests still running";
    is $_->wait->status, 200, "$how: long requests served" for @long;
    note sprintf '%s: after %.2f s, %s', $how, $first - $lost,
        join ', ', map { "$_ $result->{statuses}{$_}" }
        sort keys %{ $result->{statuses} };
    wait_for { !Dsem::Teardown::left_in($redis) } 15, 'the end';
    is scalar(map { $_->grep_log(qr/\[warn\].*lost its state/) } @fleet), 3,
        "$how: one line per worker";
    $_->clear_logs for @fleet;
}

# each has seen the others: else the census would not wait for all of them
$redis->all_beat(3);
survives('restart', sub { $redis->empty });
survives('emptied', sub { $redis->cmd('FLUSHALL') });
survives('emptied and cut', sub {
    $redis->cmd('FLUSHALL');
    $redis->client_kill;
});

$t->done;
