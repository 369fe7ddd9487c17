#!/usr/bin/perl

# An old worker goes on with a long request after a reload. As soon as another
# request of the name ends there, its idle permits are released too, of a pool at
# each server: requests of another node wait for none of them, and none is
# rejected beside them. The clock of the workers stands meanwhile: no timer
# releases them.

use lib 't/lib';
use Cpanel::JSON::XS qw(decode_json);
use Dsem::Clock;
use Dsem::Test;

my $t = Dsem::Test->new(lease => 600);
my $clock = Dsem::Clock->new($t, monotonic => 1);
my $redis = $t->redis;
my $up = $t->upstream(ports => 2);
my $servers = join ' ', map { "server $_;" } $up->addresses;

my $conf = <<"EOF_CONF";
worker_processes 1;
dsem_lease 10m;
dsem_reuse 60s;
upstream gpus {
    zone gpus 64k;
    $servers
    dsem gpus limit=4/server queue=1 timeout=60s;
}
server {
    listen 127.0.0.1:%%PORT%%;
    location /api {
        dsem api limit=8 queue=1 timeout=60s;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /gpus {
        proxy_pass http://gpus;
    }
    location /dsem/ {
        dsem_api;
    }
}
EOF_CONF

my $keeps = $clock->node('keeps', $conf);
my $asks = $clock->node('asks', $conf);

sub held { return $t->state->held($_[0]) }

sub idle {
    my ($name) = @_;
    my $all = decode_json($keeps->get('/dsem/semaphores')->body);
    my ($row) = grep { $_->{name} eq $name } @{ $all->{semaphores} };
    return $row->{local}{idle} // 0;
}

# Four permits, the fair share of one of two workers, stay with it.
sub kept {
    my ($name) = @_;
    eventually {
        my @four = map { $keeps->begin("/$name?hang=1") } 1 .. 4;
        wait_for { $up->now == 4 } 15, 'four at the backend';
        $up->release_all;
        $_->wait for @four;
        idle($name) == 4;
    } "$name: four permits stay";
}

for my $name (qw(api gpus)) {
    wait_for { $t->state->subscribed == 2 } 15, 'two sessions open';
    $up->reset;
    kept($name);
    my $long = $keeps->begin("/$name?hang=1");
    my $short = $keeps->begin("/$name?hang=1");
    wait_for { $up->now == 2 } 15, 'two at the backend';
    is idle($name), 2, "$name: two of four permits idle";

    $keeps->reload;
    wait_for { $t->state->subscribed == 3 } 15, 'session of the new worker';
    $clock->stop;
    is held($name), 4, "$name: idle permits kept by the old worker";

    $up->release_nonce($short->nonce);
    is $short->wait->status, 200, "$name: short request ends";
    eventually { held($name) == 1 } "$name: idle permits released with it"
        or last;

    $up->reset;
    my @seven = map { $asks->begin("/$name?hang=1") } 1 .. 7;
    eventually { $up->now == 8 } "$name: seven others at the backend";
    $clock->go;
    $up->release_all;
    is $_->wait->status, 200, "$name: request served" for @seven, $long;
    eventually { !$keeps->draining } "$name: old worker gone";
    is $up->peak, 8, "$name: limit reached, never exceeded";
}

# idle permits would stay for a minute
$_->quit for $keeps, $asks;

$t->done;
