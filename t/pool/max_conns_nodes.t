#!/usr/bin/perl

# Nodes with different "max_conns" of a server, and one without the pool: an
# order has no effect only if it is above the highest of all that requests may
# take. Each node shows the limit that is in force in the fleet.

use lib 't/lib';
use Cpanel::JSON::XS qw(decode_json);
use Dsem::Test;

my $t = Dsem::Test->new;
$t->redis;
my $up = $t->upstream;
my $address = $up->address;

sub conf {
    my ($max_conns) = @_;
    my $pools = $max_conns ? <<"EOF_CONF" : '';
upstream sizes {
    server $address max_conns=$max_conns;
    dsem sizes limit=max_conns queue=100 timeout=60s;
}
upstream gpus {
    server $address;
    dsem gpus limit=4/server;
}
EOF_CONF
    my $locations = $max_conns ? <<'EOF_CONF' : '';
    location / { proxy_pass http://sizes; }
    location /gpus { proxy_pass http://gpus; }
EOF_CONF
    return <<"EOF_CONF";
worker_processes 1;
dsem_reuse off;
$pools
server {
    listen 127.0.0.1:%%PORT%%;
$locations
    location /dsem/ { dsem_api write=on; }
}
EOF_CONF
}

my ($small, $large, $none) = map { $t->node($_->[0], conf($_->[1])) }
    [ small => 3 ], [ large => 20 ], [ none => 0 ];
my @all = ($small, $large, $none);

# Orders a limit at this node; returns the one that it replies.
sub order {
    my ($node, $path, $limit) = @_;
    my $answer = $node->get("/dsem/semaphores/$path", -method => 'PATCH',
        -body => qq({"limit":$limit}), 'Content-Type' => 'application/json');
    return decode_json($answer->body)->{limit} // 'null';
}

# The limit of each server that these nodes have, as seen after a change.
sub shows {
    my ($what, $name, $limit, @nodes) = @_;
    my @seen;
    eventually {
        @seen = map {
            my $each = decode_json($_->get("/dsem/semaphores/$name")->body)
                ->{semaphore}{per_server};
            $each ? $each->{limit} // 'null' : 'no pool';
        } @nodes;
        !grep { $_ ne $limit } @seen;
    } "$what: shown" or diag "@seen";
}

sub logs {
    my ($node, $from, $to, $limit) = @_;
    is scalar($node->grep_log(qr/"sizes": limit $from -> $to, .* limit in force $limit\b/)),
        1, "$to: logged";
}

# one node has requests, the others have not

my @held = map { $large->begin('/?hang=1') } 1 .. 10;
wait_for { $up->now == 10 } 15, 'ten at the backend';
for my $node ($small, $none) {
    is order($node, 'sizes', 5), 5, 'a cut of another node is in force';
    shows('cut', 'sizes', 5, @all);
    is order($node, 'sizes', 20), 20, 'as much as it has';
    is order($node, 'sizes', 21), 'null', 'above what any node has';
    shows('above', 'sizes', 'null', @all);
    is order($node, 'sizes', 'null'), 'null', 'no order';
    logs($node, 'none', 5, 5);
    logs($node, 20, 21, 'max_conns');
}
logs($small, 21, 'none', 'max_conns');
$up->release_all;
is $_->wait->status, 200, 'request ended' for @held;

# what this node may take counts, too, and what is known of others no more

@held = $small->begin('/?hang=1');
wait_for { $up->now == 1 } 15, 'one at the backend';
is order($large, 'sizes', 5), 5, 'above what requests may take, not its own';
shows('own', 'sizes', 5, $large);
$up->release_all;
$_->wait for @held;
wait_for { $t->state->counts('sizes') eq '0 0' } 15, 'at rest';
is order($small, 'sizes', 6), 6, 'at rest';
shows('at rest', 'sizes', 6, $small, $large);
@held = map { $large->begin('/?hang=1') } 1 .. 10;
eventually { $t->state->counts('sizes') eq '6 4' } 'it is in force';
wait_for { $up->release_all; !grep { !$_->done } @held } 30, 'all end';

# a pool whose servers are listed for their orders alone

is $small->get('/gpus')->status, 200, 'another pool';
is order($small, 'gpus', 2), 2, 'of all servers';
is order($small, "gpus/servers/$address", 1), 1, 'and of one';
shows('at rest', 'gpus', 2, @all);

$t->done;
