#!/usr/bin/perl

# "fair" comes, has another key, and goes with reloads while requests wait: all
# of them keep their places, requests of old workers too, and each is served.

use lib 't/lib';
use Dsem::Clock;
use Dsem::Test;

my $t = Dsem::Test->new;
$t->redis;
my $up = $t->upstream;
my $clock = Dsem::Clock->new($t, monotonic => 1);

my $conf = <<'EOF_CONF';
worker_processes 1;
location / {
    dsem api limit=1 queue=50 timeout=60s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

my $node = $clock->node('a', $conf);
my (@all, %is);
my $holder = $node->begin('/?hang=1');
wait_for { $up->now == 1 } 15, 'the holder';

ask("plain$_", 'x') for 1 .. 3;

# with keys: behind what waits, and in turns

$node->reload($conf =~ s/timeout=60s/timeout=60s fair=\$arg_k/r);
ask("heavy$_", 'heavy') for 1 .. 4;
ask("light$_", 'light') for 1 .. 2;

# another key for the same requests: a tenant of its own

$node->reload($conf =~ s/timeout=60s/timeout=60s fair=other-\$arg_k/r);
ask("other$_", 'heavy') for 1 .. 2;

# without: behind all

$node->reload($conf);
ask("last$_", 'x') for 1 .. 2;
is scalar($node->draining), 3, 'three old workers with requests';

# a worker serves its own next request while a reply is late: none ever is
wait_for { $t->state->subscribed == 4 } 15, 'all to be told of grants';
$clock->stop;
$up->release_all;
is $_->wait(30)->status, 200, 'request served' for $holder, @all;
$clock->go;
my @order = map { $is{$_} // () } $up->order;
note "@order";
is_deeply [@order[0 .. 2]], [qw(plain1 plain2 plain3)], 'without a key: first';
is_deeply [@order[-2, -1]], [qw(last1 last2)], 'without a key: last';
for my $key (qw(heavy light other)) {
    is_deeply [grep { /^$key/ } @order],
        [grep { /^$key/ } map { $is{ $_->nonce } } @all],
        "$key: order of arrival";
}
is scalar(grep { /^(?:light|other)/ } @order[3 .. 8]), 4, 'keys take turns';
is $up->peak, 1, 'limit reached, never exceeded';
eventually { !$node->draining } 'old workers have gone';

$t->done;

sub ask {
    my ($name, $key) = @_;
    my $request = $node->begin("/?k=$key&t=2");
    push @all, $request;
    $is{ $request->nonce } = $name;
    wait_for { $t->state->waiting('api') == @all } 15, 'in the queue';
}
