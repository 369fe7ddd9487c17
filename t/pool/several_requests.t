#!/usr/bin/perl

# A request that goes to its pool more than once has one permit for all of it:
# slices, the update of a cached response and a response by X-Accel-Redirect get
# the server of its permit, and no other request gets there in between. A mirror
# that runs beside it has no permit.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
$t->redis;
my @up = map { $t->upstream } 1, 2;
my $other = $t->upstream;

# the servers of the pool are in the same nginx: they add to the answers of what
# counts their requests
my $servers = join '', map {
    my $port = '%%PORT' . ($_ + 2) . '%%';
    my $pass = 'proxy_pass http://' . $up[$_]->address;
    <<"EOF_CONF";
server {
    listen 127.0.0.1:$port;
    proxy_set_header X-Nonce \$http_x_nonce;
    location / {
        # cached, and stale
        add_header X-Accel-Expires \@1;
        add_header X-Accel-Redirect \$arg_to;
        proxy_force_ranges on;
        proxy_set_header Range "";
        $pass;
    }
}
EOF_CONF
} 0 .. $#up;

my $node = $t->node('a', <<"EOF_CONF");
worker_processes 1;
dsem_reuse off;
proxy_cache_path %%DIR%%/cache keys_zone=cache:1m;
upstream gpus {
    server 127.0.0.1:%%PORT2%%;
    server 127.0.0.1:%%PORT3%%;
    dsem gpus limit=1/server queue=10 timeout=60s;
}
upstream least {
    least_conn;
    server 127.0.0.1:%%PORT2%%;
    server 127.0.0.1:%%PORT3%%;
    dsem least limit=1/server queue=10 timeout=60s;
}
upstream others {
    server @{[ $other->address ]};
    dsem others limit=1/server queue=10 timeout=60s;
}
proxy_set_header X-Nonce \$http_x_nonce;
server {
    listen 127.0.0.1:%%PORT%%;
    add_header X-Server \$dsem_server;
    add_header X-Cache \$upstream_cache_status;
    proxy_cache_key \$uri;
    proxy_cache_use_stale updating;
    proxy_cache_background_update on;
    location / {
        proxy_pass http://gpus;
    }
    location /sliced {
        slice 100k;
        proxy_set_header Range \$slice_range;
        proxy_pass http://gpus;
    }
    location /cached {
        proxy_cache cache;
        proxy_pass http://gpus;
    }
    location /mirrored {
        mirror /mirror;
        proxy_pass http://gpus;
    }
    location /locked {
        proxy_cache cache;
        proxy_cache_lock on;
        proxy_cache_lock_timeout 60s;
        proxy_cache_lock_age 60s;
        mirror /beside;
        proxy_pass http://least;
    }
    location /mirror {
        internal;
        proxy_pass http://gpus/mirror?hang=1;
    }
    location /same/ {
        proxy_pass http://gpus/same?hang=1;
    }
    location /both {
        proxy_cache cache;
        mirror /beside;
        proxy_pass http://least;
    }
    location /beside {
        internal;
        proxy_pass http://least/mirror?hang=1;
    }
    location /other/ {
        proxy_pass http://others/other?hang=1;
    }
}
$servers
EOF_CONF

sub counts { return $t->state->counts('gpus') }

# numbers of the servers at which requests run, and of that with this address
sub running { return join ' ', map { $_->now } @up }
sub at {
    my ($request) = @_;
    my ($port) = $request->header('X-Server') =~ /:(\d+)$/;
    return $port == $node->port(3) ? 1 : 0;
}

sub begin {
    my ($path, $nonce) = @_;
    return $node->begin($path, 'X-Nonce' => $nonce);
}

# that a server has had for the request "locked", but for its mirror
sub updates {
    return grep { $_->{nonce} eq 'locked' && $_->{uri} =~ m{^/locked} }
        $_[0]->log;
}

# nonces of all that a server has had
sub order { return join ' ', $_[0]->order }

sub end {
    my (@requests) = @_;
    wait_for { $_->release_all for @up, $other; !grep { !$_->done } @requests }
        30, 'the end of all';
    eventually { counts() eq '0 0' } 'all permits are back';
    is scalar(grep { $_->peak > 1 } @up), 0, 'no server had two at once';
    $_->reset for @up, $other;
    return;
}

# both servers are full, with $path at the first of them; another request waits
sub full {
    my ($path) = @_;
    my $first = begin($path, 'first');
    wait_for { $up[0]->now + $up[1]->now == 1 } 15, "$path at a server";
    my ($n) = grep { $up[$_]->now } 0, 1;
    my $beside = begin('/?hang=1', 'beside');
    wait_for { running() eq '1 1' } 15, 'the other one is taken';
    my $next = begin('/?t=1', 'next');
    eventually { counts() eq '2 1' } "$path: a request waits";
    return $n, $first, $beside, $next;
}

# slices

my ($n, $first, $beside, $next) = full('/sliced?size=409600&hang=1');
wait_for { $up[$n]->release_all; $next->done } 30, 'what waits';
is order($up[$n]), 'first first first first next',
    'slices are at one server, what waits is behind them';
is running(), $n ? '1 0' : '0 1', 'none is at the other';
end($first, $beside, $next);
is length $first->body, 409_600, 'complete';
is at($first), $n, 'the server of its permit';

# an update

begin('/cached?t=1', 'fills')->wait;
end();
my $update = begin('/cached?hang=1', 'update');
is $update->wait->header('X-Cache'), 'STALE', 'served from the cache';
$n = at($update);
wait_for { $up[$n]->now } 15, 'updated by the server of its permit';
$beside = begin('/?hang=1', 'beside');
wait_for { running() eq '1 1' } 15, 'the other one is taken';
$next = begin('/?t=1', 'next');
eventually { counts() eq '2 1' } 'an update has a permit: a request waits';
$up[$n]->release(1);
is $next->wait->status, 200, 'until it has ended';
is order($up[$n]), 'update next', 'at its server';
end($beside);

# X-Accel-Redirect, to the same pool and to another one

($n, $first, $beside, $next) = full('/?hang=1&to=/same/');
$up[$n]->release(1);
wait_for { $up[$n]->started == 2 && $up[$n]->now } 15, 'redirected';
is order($up[$n]), 'first first', 'redirected within the pool: the same server';
eventually { counts() eq '2 1' } 'its permit is kept';
$up[$n]->release(1);
is $next->wait->status, 200, 'then it is for the request that waits';
end($first, $beside);
is at($first), $n, 'the server of its permit';

($n, $first, $beside, $next) = full('/?hang=1&to=/other/');
$up[$n]->release(1);
is $next->wait->status, 200, 'redirected to another pool: its permit goes back';
is at($next), $n, 'to the request that waits';
eventually { $other->now == 1 } 'redirected';
eventually { $t->state->counts('others') eq '1 0' }
    'with a permit of that pool';
end($first, $beside);
is $first->header('X-Server'), $other->address, 'and of its server';

# a mirror: the balancing method chooses

my $mirrored = begin('/mirrored?hang=1', 'mirrored');
eventually { $up[0]->now + $up[1]->now == 2 } 'mirrored';
eventually { counts() eq '1 0' } 'the mirror has no permit';
wait_for { $_->release_all for @up; $mirrored->done } 30, 'the end of both';
is $mirrored->status, 200, 'served';
eventually { counts() eq '0 0' } 'all permits are back';
is scalar($node->grep_log(qr/\[warn\].*subrequest to upstream "gpus" has no/)),
    1, 'and logged';
$_->reset for @up;

# beside the update of a cached response: one of both has its permit

my $fill = begin('/both?t=1', 'fill');
wait_for { $_->release_all for @up; $fill->done } 15, 'cached';
end();
my $both = begin('/both?hang=1', 'both');
is $both->wait->header('X-Cache'), 'STALE', 'served from the cache';
eventually { running() eq '1 1' } 'the other one gets another server';
end();

# a mirror that runs while its request waits for another one to fill the cache

my $fills = begin('/locked?hang=1', 'fills');
wait_for { $up[0]->now + $up[1]->now == 2 } 15, 'one fills the cache';
my $locked = begin('/locked?hang=1', 'locked');
eventually { $up[0]->now + $up[1]->now == 3 } 'the mirror of one that waits';
$_->release_nonce('fills') for @up;
wait_for { $fills->done } 15, 'the cache is filled';
eventually { 2 == grep { $_ eq 'locked' } map { $_->order } @up }
    'the request has its permit still';
wait_for { $_->release_all for @up; $locked->done } 30, 'the end of both';
is $_->status, 200, 'served' for $fills, $locked;
# the balancing method would choose the other one, which is free
eventually { 1 == map { updates($_) } @up } 'the update has ended';
is scalar(updates($up[at($locked)])), 1, 'at the server of its permit';

$t->done;
