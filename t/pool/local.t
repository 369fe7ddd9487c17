#!/usr/bin/perl

# Redis is unavailable for longer than a lease. With "local" each worker goes on
# with the permits that it had at each server, so that no server has more than
# its limit; an order that has ended before does not count. A worker that had none
# waits for the end of the lease, and then passes one request at a time, always to
# the same server.

use lib 't/lib';
use Cpanel::JSON::XS qw(decode_json);

use Dsem::Clock;
use Dsem::Test;

my $LEASE = 600;
my ($GONE, $BACK) = (qr/unavailable \(/, qr/available again/);

my $t = Dsem::Test->new(lease => $LEASE);
my $redis = $t->redis;
my $clock = Dsem::Clock->new($t, monotonic => 1);
my @up = map { $t->upstream } 1 .. 3;
my $servers = join ' ', map { 'server ' . $_->address . ';' } @up;

# no timeout ends when the lease does
my ($one, $two, $none) = $clock->fleet(3, <<"EOF_CONF");
worker_processes 1;
dsem_reuse off;
dsem_lease 10m;
upstream gpus {
    $servers
    dsem gpus limit=1/server queue=100 timeout=9h;
}
upstream rest {
    $servers
    dsem rest limit=1/server queue=100 timeout=9h;
}
server {
    listen 127.0.0.1:%%PORT%%;
    proxy_set_header X-Node %%NODE%%;
    proxy_set_header X-Sem \$dsem_name;
    proxy_read_timeout 9h;
    location /gpus {
        proxy_pass http://gpus;
    }
    location /rest {
        proxy_pass http://rest;
    }
    location /dsem/ {
        dsem_api write=on;
    }
}
EOF_CONF
my @nodes = ($one, $two, $none);

# the node that each server was last used by, of one pool
sub at {
    my ($name) = @_;
    return join ' ', map {
        (map { $_->{node} } grep { $_->{sem} eq $name } $_->log)[-1] // '-'
    } @up;
}

sub running {
    my ($name) = @_;
    return join ' ', map { $_->now($name) } @up;
}

sub one_each { wait_for { running('gpus') eq '1 1 1' } 15, 'all are taken' }

# waits for a line in the log of each node that was not there before; while Redis
# does not reply the clock of the nodes is fast
sub logged {
    my ($line, $before) = @_;
    wait_for {
        $clock->step(0.1) if $line eq $GONE;
        !grep { $nodes[$_]->grep_log($line) <= $before->[$_] } 0 .. $#nodes
    } 15, "$line";
}

sub lines {
    my ($line) = @_;
    return [ map { scalar $_->grep_log($line) } @nodes ];
}

sub order {
    my ($limit) = @_;
    my $ordered = $one->get('/dsem/semaphores/gpus', -method => 'PATCH',
        -body => qq({"limit":$limit}), 'Content-Type' => 'application/json');
    is $ordered->status, 200, "ordered: $limit";
    $ordered->close;
}

# the worker has the three requests, and none is at a server
sub waits {
    my ($name) = @_;
    my $local;
    wait_for {
        my $reply = $none->get('/dsem/semaphores/rest');
        $local = decode_json($reply->body)->{semaphore}{local};
        $local->{waiting} + $local->{in_use} == 3;
    } 15, "$name: three requests";
    is $local->{in_use}, 0, "$name: a worker without permits waits";
    is running('rest'), '0 0 0', "$name: no server is used";
}

# an order of 0, which workers learn by a message, and its end

$redis->all_beat(3);
wait_for { $t->state->subscribed == 3 } 15, 'messages come';
order(0);
is $_->get('/gpus')->status, 503, 'rejected by an order' for $one, $two;
wait_for {
    2 == grep { $_->grep_log(qr/"gpus" is 0 by an operator's/) } $one, $two
} 15, 'both have learnt why';
order('null');
is $_->get('/gpus')->status, 200, 'served again' for $one, $two;

for my $outage (qw(killed frozen)) {
    # a worker that has never been connected has no lease to wait for
    $redis->all_beat(3);
    $_->reset for @up;

    # two servers are used by one node, the third by another one
    my @requests;
    for my $node ($one, $one, $two) {
        push @requests, $node->begin('/gpus?hang=1');
        wait_for { $t->state->held('gpus') == @requests } 15, 'a permit';
    }
    one_each();
    my $before = at('gpus');
    is join(' ', sort split / /, $before),
        join(' ', map { $_->name } $one, $one, $two), "$outage: two and one";
    my $more = sub {
        push @requests, map { $_->begin('/gpus?hang=1') } $one, $one, $two;
    };
    if ($outage eq 'frozen') {
        $more->();
        wait_for { $t->state->waiting('gpus') == 3 } 15, 'others wait';
    }

    my ($gone, $back) = map { lines($_) } $GONE, $BACK;
    $outage eq 'killed' ? $redis->kill : $redis->freeze;
    logged($GONE, $gone);
    $more->() if $outage eq 'killed';
    $_->release(1) for @up;
    wait_for { 3 == grep { $_->done } @requests } 15, 'three end';
    one_each();
    is at('gpus'), $before, "$outage: their permits serve the next requests";
    my @first = map { $none->begin("/rest?hang=1&n=$_") } 1 .. 3;
    waits($outage);
    $clock->step(0.85 * $LEASE);
    waits("$outage, after the fence");

    # the lease is over

    $clock->step(0.15 * $LEASE + 10);
    for my $done (1 .. @first) {
        wait_for { running('rest') =~ /1/ } 15, 'one passes';
        $_->release_all for @up;
        wait_for { $done == grep { $_->done } @first } 15, 'it ends';
    }
    is $_->wait->status, 200, "$outage: request served" for @requests, @first;
    is join(' ', sort map { $_->peak('rest') } @up), '0 0 1',
        "$outage: then one by one, at one server";
    is $none->logged($first[0])->{dsem_status}, 'DEGRADED', "$outage: DEGRADED";

    my $load = $t->load(urls => [ map { $_->url('/gpus?t=2') } $one, $two ],
        clients => 8, requests => 80, timeout => 60);
    is_deeply [ keys %{ $load->{statuses} } ], [200], "$outage: all served"
        or diag explain $load->{statuses};
    my %at;
    for my $n (0 .. $#up) {
        $at{$n}{ $_->{node} } = 1
            for grep { $_->{sem} eq 'gpus' } $up[$n]->log;
    }
    is join(' ', map { join '+', sort keys %{ $at{$_} } } 0 .. $#up), $before,
        "$outage: each server by the node that had it";
    is $_->peak('gpus'), 1, "$outage: limit of a server not exceeded" for @up;

    # Redis is back

    $outage eq 'killed' ? $redis->start : $redis->thaw;
    logged($BACK, $back);
    # after so long an outage nothing is granted for a quarter of the lease
    wait_for {
        my $recovers = $t->state->recovering;
        $t->state->set_shard('recover_until', 0) if $recovers;
        !$recovers;
    } 15, 'recovered';
    my @all = map { $none->begin('/gpus?hang=1') } @up;
    one_each();
    is at('gpus'), join(' ', ($none->name) x 3),
        "$outage: any worker may use all servers";
    $_->release_all for @up;
    is $_->wait->status, 200, 'request served' for @all;
}

$t->done;
