#!/usr/bin/perl

# The connection to Redis is lost while a semaphore is paused, or has a lower
# limit by an order: a worker that has read it serves no more requests on its
# own permits, also if they came later, until a reply says otherwise. Without an
# order each permit serves.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new(lease => 60);
my $redis = $t->redis;
my $up = $t->upstream;
my $proxy = $t->proxy($redis->address);

my $node = $t->node('a', <<'EOF_CONF', REDIS => $proxy->address);
worker_processes 1;
dsem_lease 60s;
dsem_reuse off;
location / {
    dsem $arg_name limit=4 queue=20 timeout=60s weight=$arg_weight;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

my $state = $t->state;
my %order = (free => undef, paused => '- 1', zero => '0 0', one => '1 0',
    heavy => '3 0');
my %weight = (heavy => 2);
# what runs in the outage of those that wait, and of those that come later
my %served = (free => 4, paused => 0, zero => 0, one => 1, heavy => 1);

my %all;
sub begin_requests {
    my ($name, $what, $n) = @_;
    my $weight = $weight{$name} // 1;
    push @{$all{$name}},
        map { $node->begin("/?hang=1&name=$name&weight=$weight",
            'X-Nonce' => "$name $what $_") } 1 .. $n;
}

my $running = 0;
for my $name (sort keys %order) {
    begin_requests($name, 'runs', 4 / ($weight{$name} // 1));
    $running += @{$all{$name}};
}
wait_for { $up->now == $running } 15, 'all limits are reached';
for my $name (sort keys %order) {
    $state->order($name, $order{$name}) if $order{$name};
    if ($name eq 'zero') {
        is $node->get('/?name=zero')->status, 503, 'rejected';
        next;
    }
    begin_requests($name, 'waits', 2);
    wait_for { $state->figure($name, 'waiting') == 2 } 15, "$name: two wait";
}
# comes behind the replies to them
is $node->get('/?name=last')->status, 200, 'no reply awaited';

$proxy->refuse(1);
$proxy->reset;
wait_for { scalar $node->grep_log(qr/redis \S+ unavailable/) } 15, 'no Redis';
begin_requests($_, 'comes', 4) for sort keys %order;
my @ran = grep { $_->nonce =~ / runs / } map { @$_ } values %all;
$up->release_nonce($_->nonce) for @ran;
is $_->wait->status, 200, 'one that ran ends' for @ran;

sub started {
    my ($name) = @_;
    return scalar grep { /^\Q$name\E (?:waits|comes)/ } $up->order;
}
eventually { started($_) >= $served{$_} } "$_: own permits serve"
    for sort keys %order;
# comes behind all that the worker could serve
$up->release_nonce('free waits 1');
eventually { started('free') == 5 } 'and the next one';
is started($_), $served{$_}, "$_: no other one"
    for grep { $_ ne 'free' } sort keys %order;

$proxy->refuse(0);
wait_for { scalar $node->grep_log(qr/available again/) } 15, 'Redis is back';
eventually { $state->held('one') == 1 && $state->held('paused') == 0 }
    'counted by Redis';
is started('zero') + started('paused'), 0, 'no request since';
$state->drop_orders;
wait_for { $up->release_all; !grep { !$_->done } map { @$_ } values %all } 30,
    'all end';
is $_->status, 200, 'served after the pause' for @{$all{paused}};

$t->done;
