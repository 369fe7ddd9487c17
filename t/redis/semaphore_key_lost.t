#!/usr/bin/perl

# The hash of one semaphore is deleted while its permits are out. Redis has
# lost the holders and may grant the limit once more. This overage is counted
# and logged, and ends with the next command of a worker that holds permits.
# Other semaphores are not affected.

use lib 't/lib';
use Cpanel::JSON::XS qw(decode_json);
use Dsem::Test;

my ($LIMIT, $LEASE) = (4, 1);

my $t = Dsem::Test->new(lease => $LEASE);
$t->redis;
my $up = $t->upstream(service => 0.020);

my ($one, $two) = $t->fleet(2, <<'EOF_CONF');
worker_processes 1;
dsem_lease 1s;
proxy_set_header X-Sem $dsem_name;
location /lost {
    dsem lost limit=4 queue=100 timeout=20s;
    proxy_pass http://%%UPSTREAM%%;
}
location /dsem/ {
    dsem_api;
}
location /other {
    dsem other limit=2 queue=100 timeout=20s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

sub of {
    my ($name, $field) = @_;
    return $t->state->figure($name, $field);
}

sub overage { return map { $_->grep_log(qr/\[warn\].*overage/) } $one, $two }

# permits, by the nodes' counters and by their logs
sub overage_counted {
    my $permits = 0;
    for my $node ($one, $two) {
        my $all = decode_json($node->get('/dsem/semaphores')->body);
        $permits += $_->{local}{overage} for @{ $all->{semaphores} };
    }
    return $permits;
}

sub overage_logged {
    my $permits = 0;
    $permits += $_ for map { /overage of (\d+) permits/ } overage();
    return $permits;
}

# no request asks: a worker that only holds compares counts once a lease

my @long = map { $_->begin('/lost?hang=1') } ($one, $two) x 2;
my $other = $one->begin('/other?hang=1');
wait_for { $up->now('lost') == $LIMIT && $up->now('other') } 15,
    'all permits out';
$t->state->delete_semaphore('lost');
eventually { of('lost', 'held') == $LIMIT } 'found out while idle',
    5 * $LEASE;
is of('other', 'held'), 1, 'other semaphore untouched';
is scalar(overage()), 0, 'no overage without a second grant';

# a request asks at once: the limit once more, and no more

$t->state->delete_semaphore('lost');
my @more = map { $_->begin('/lost?hang=1') } ($one, $two) x 4;
eventually { of('lost', 'held') > $LIMIT } 'overage counted', 5 * $LEASE;
eventually { $up->peak('lost') > $LIMIT } 'limit really exceeded';
eventually { of('lost', 'held') == $up->now('lost') } 'whole overage counted';
cmp_ok $up->peak('lost'), '<=', 2 * $LIMIT, 'overage bounded';
eventually { overage() } 'overage logged';
eventually { overage_counted() == overage_logged() }
    'overage in the counters';
$up->release_nonce($other->nonce);
is $up->now('other'), 0, 'other: request ended';
is $other->wait->status, 200, 'other: request served';
# where a reply of Redis is late, the permit serves the worker's next request
wait_for {
    $up->release(1) while $up->now('lost') > $LIMIT;
    of('lost', 'held') == $LIMIT;
} 15, 'the excess to end';
is $up->now('lost'), $LIMIT, 'no grant above limit';
wait_for { $up->release_all; !grep { !$_->done } @long, @more } 15, 'the end';
is $_->wait->status, 200, 'all requests served' for @long, @more;

# and under load

$up->reset;
my $load = $t->load_start(clients => 12, seconds => 3600,
    urls => [ map { $_->url('/lost') } $one, $two ]);
wait_for { $up->peak('lost') == $LIMIT && $up->served > 5 } 15, 'load';
$t->state->delete_semaphore('lost');
my $lost = now;
wait_for { now > $lost + $LEASE } 15, 'a lease';
my $served = $up->served;
wait_for { $up->served > $served + 50 } 15, 'service';
my $statuses = $load->stop->wait->{statuses};
cmp_ok $up->peak('lost'), '<=', 2 * $LIMIT, 'load: overage bounded';
my @later = grep { $_->[0] > $lost + $LEASE } $up->levels('lost');
cmp_ok scalar(@later), '>', 20, 'load: service continues';
is scalar(grep { $_->[1] > $LIMIT } @later), 0, 'load: permits counted again';
is_deeply [ keys %$statuses ], [200], 'load: every request served'
    or diag explain $statuses;

$t->done;
