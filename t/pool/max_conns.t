#!/usr/bin/perl

# "limit=max_conns": the limit of each server, over all workers of all nodes, is
# its own. The servers see it reached and never exceeded. The API has no number
# for all of them; an order, of one server or of all, lowers it and cannot raise it.

use lib 't/lib';
use Cpanel::JSON::XS qw(decode_json);
use Dsem::Test;

my @LIMITS = (1, 3);

my $t = Dsem::Test->new;
my $redis = $t->redis;
# in the order of the names
my @up = sort { $a->address cmp $b->address } map { $t->upstream } @LIMITS;
my @addresses = map { $_->address } @up;
my $servers = join ' ', map {
    "server $addresses[$_] max_conns=$LIMITS[$_];"
} 0 .. $#up;

my $conf = <<"EOF_CONF";
worker_processes 2;
dsem_reuse off;
upstream gpus {
    zone gpus 64k;
    $servers
    dsem gpus limit=max_conns queue=100 timeout=60s;
}
server {
    listen 127.0.0.1:%%PORT%%;
    location / {
        proxy_pass http://gpus;
        add_header X-Limit \$dsem_limit always;
    }
    location /strict {
        dsem_on_error reject;
        proxy_pass http://gpus;
        add_header X-Limit \$dsem_limit always;
    }
    location /dsem/ {
        dsem_api write=on;
    }
}
EOF_CONF
my @nodes = $t->fleet(2, $conf);

sub sessions {
    wait_for {
        $t->state->session_count == 4 && $t->state->subscribed == 4
    } 30, 'sessions of all workers';
}

sub running { return join ' ', map { $_->now } @up }

# Changes the limit of the pool, or of one server, in the path; returns the
# figures of the answer.
sub order {
    my ($limit, $path) = @_;
    my $answer = $nodes[0]->get('/dsem/semaphores/gpus' . ($path // ''),
        -method => 'PATCH', -body => qq({"limit":$limit}),
        'Content-Type' => 'application/json');
    my $of = decode_json($answer->body);
    return join ' ', map { $_ // 'null' } @$of{qw(limit configured)};
}

# What the API has: the sum, the limits of all servers, those of each.
sub figures {
    my $pool = decode_json($nodes[1]->get('/dsem/semaphores/gpus')->body)
        ->{semaphore};
    return join ' ', map { $_ // 'null' } @$pool{qw(limit configured)},
        @{ $pool->{per_server} }{qw(limit configured)},
        $pool->{local}{configured},
        map { $_->{usable} ? $_->{limit} : 'unusable' } @{ $pool->{servers} };
}

sub shows {
    my ($name, $figures) = @_;
    my $seen;
    eventually { ($seen = figures()) eq $figures } $name or diag $seen;
}

sessions();
my $seen;
wait_for { ($seen = figures()) =~ /^\d/ } 15, 'figures of the fleet';
is $seen, '4 4 null null null 1 3', 'at rest' or die 'other limits';

# each server has what it can take, and the next request waits

my @held = map { $nodes[ $_ % 2 ]->begin('/?hang=1') } 1 .. 4;
eventually { running() eq "@LIMITS" } 'each server has its own number';
my $waits = $nodes[0]->begin('/');
eventually { $t->state->counts('gpus') eq '4 1' } 'one request waits';
shows('in use', '4 4 null null null 1 3');
$up[0]->release(1);
is $waits->wait->status, 200, 'served by the smaller one';
is $waits->header('X-Limit'), 4, '$dsem_limit is the sum';
$_->release_all for @up;
is $_->wait->status, 200, 'request ended' for @held;

# under load

my $load = $t->load(urls => [ map { $_->url('/?t=10') } @nodes ],
    clients => 12, requests => 300, timeout => 60);
is_deeply [ keys %{ $load->{statuses} } ], [200], 'all served'
    or diag explain $load->{statuses};
is $up[$_]->peak, $LIMITS[$_], 'limit of a server reached, not exceeded'
    for 0, 1;

# orders

is order(2), '2 null', 'two at each server';
shows('the smaller one keeps its own', '3 4 2 null null 1 2');
eventually {
    $nodes[0]->get('/');
    $nodes[0]->grep_log(qr/\[warn\].*dsem: limit of "gpus" is 2 by an operator's order, this node asks for max_conns/);
} 'the node warns';
is order(9, "/servers/$addresses[1]"), '2 3', 'another one for one server';
is order('null'), 'null null', 'its own limits again';
shows('not above its own', '4 4 null null null 1 3');
is order(2, "/servers/$addresses[1]"), '2 3', 'a lower one';
shows('that server has it', '3 4 null null null 1 2');
is order('null', "/servers/$addresses[1]"), '3 3', 'its own again';
is order(3), '3 null', 'as the larger one has';
is order(9), '9 null', 'above all of them';
shows('at rest other nodes may have more', '4 4 9 null null 1 3');
@held = $nodes[1]->begin('/?hang=1');
eventually { $t->state->counts('gpus') eq '1 0' } 'in use';
is order(10), 'null null', 'above all of them';
shows('each has its own', '4 4 null null null 1 3');
is order('null'), 'null null', 'no order';
is scalar($nodes[0]->grep_log(qr/order for semaphore "gpus": limit $_, .* limit in force max_conns/)),
    1, "logged: $_" for '2 -> none', '9 -> 10', '10 -> none';
$_->release_all for @up;
is $held[0]->wait->status, 200, 'request ended';

# without Redis the limit is that of the configuration

$redis->kill;
my %limits;

# of requests that asked before, and after it is unavailable, at each worker
wait_for {
    my $refused = $nodes[0]->get('/strict');
    $limits{ $refused->header('X-Limit') } = 1 if $refused->status == 503;
    $nodes[0]->grep_log(qr/unavailable \(/) >= 2;
} 30, 'unavailable';
$limits{ $nodes[0]->get('/strict')->header('X-Limit') } = 1;
is_deeply \%limits, { 4 => 1 }, '$dsem_limit is the sum of all servers';
$redis->start;
eventually { $nodes[0]->get('/strict')->status == 200 } 'served again';
sessions();

# another number at one node counts for the requests of that

$nodes[0]->reload($conf =~ s/max_conns=3/max_conns=1/r);
sessions();
@held = map { $nodes[0]->begin('/?hang=1') } 1 .. 3;
eventually { running() eq '1 1' } 'one at each server';
eventually { $t->state->counts('gpus') eq '2 1' } 'one request waits';
push @held, map { $nodes[1]->begin('/?hang=1') } 1, 2;
eventually { running() eq '1 3' } 'the other node has its own number';
is $t->state->counts('gpus'), '4 1', 'the first one waits still';
wait_for { $_->release_all for @up; !grep { !$_->done } @held } 30, 'all end';
is $_->status, 200, 'served' for @held;

$t->done;
