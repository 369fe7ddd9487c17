#!/usr/bin/perl

# A server that fails now and then is not left out. The permit of a request that
# failed there does not stay for the next one, so that an error page leads to
# another server; and in a dry run no idle permit names the server. Of a server
# that is left out no permit stays, also of requests that end well there.

use lib 't/lib';
use Cpanel::JSON::XS qw(decode_json);
use Dsem::Test;

my $t = Dsem::Test->new(lease => 60);
$t->redis;
my @up = map { $t->upstream } 1, 2;
my $servers = join ' ', map {
    'server ' . $_->address . ' max_fails=100;'
} @up;

my $node = $t->node('a', <<"EOF_CONF");
worker_processes 1;
dsem_lease 60s;
dsem_reuse 60s;
upstream gpus {
    $servers
    dsem gpus limit=2/server queue=10 timeout=60s;
}
upstream once {
    @{[ $servers =~ s/max_fails=100/fail_timeout=3600/gr ]}
    dsem once limit=2/server queue=10;
}
server {
    listen 127.0.0.1:%%PORT%%;
    proxy_set_header X-Node a;
    add_header X-Tries \$upstream_addr always;
    location / {
        error_page 502 504 = \@again;
        proxy_pass http://gpus;
    }
    location \@again {
        proxy_pass http://gpus;
    }
    location /answers {
        proxy_next_upstream error http_503;
        proxy_pass http://gpus;
    }
    location /dry {
        dsem_dry_run on;
        proxy_pass http://gpus;
    }
    location /once {
        proxy_pass http://once;
    }
    location /dsem/ {
        dsem_api;
    }
}
EOF_CONF

# permits that lie idle in the worker
sub idle {
    my ($name) = @_;
    my $all = decode_json($node->get('/dsem/semaphores')->body);
    my ($pool) = grep { $_->{name} eq $name } @{ $all->{semaphores} };
    return $pool->{local}{idle} // 0;
}

# One permit is idle in the worker; returns its server, and the other one.
sub kept {
    my ($name) = @_;
    my $address;
    eventually {
        $address = $node->get('/?t=1')->header('X-Tries');
        idle('gpus') == 1;
    } $name;
    return sort { ($b->address eq $address) <=> ($a->address eq $address) }
        @up;
}

my ($bad, $good) = kept('a permit stays');
$bad->refuse('a');
my $request = $node->get('/');
is $request->status, 200, 'a try fails, and another one does not';
# over a connection that was kept, which nginx does by default since 1.29.7, twice
my ($failed, $served) = map { quotemeta $_->address } $bad, $good;
like $request->header('X-Tries'), qr/^$failed(, $failed)? : $served$/,
    'at another server';
$bad->refuse('a', 0);

# the answer of the server is a failure: its header was sent, and the permit goes
# back before nginx has counted that
($bad) = kept('a permit stays for an answer');
my $answer = $node->get('/answers?status=503');
is $answer->header('X-Tries'), $bad->address, 'the server of the permit answers';
is $answer->status, 503, 'with a failure';
is idle('gpus'), 0, 'and the permit does not stay';
isnt $node->get('/answers')->header('X-Tries'), $bad->address,
    'the next one goes to another server';

($bad, $good) = kept('a permit stays again');
$bad->refuse('a');
is $node->get('/dry')->status, 200, 'a dry run is served by any server'
    for 1 .. 2;

# another request has found the server failed, before one ends well there

$bad->refuse('a', 0);
my ($left, $other) = @up;
my @held = map { $node->begin('/once?hang=1') } 1, 2;
eventually { 2 == grep { $_->now == 1 } @up } 'a request at each server';
push @held, map { $node->begin('/once?hang=1&rst=1') } 1, 2;
eventually { 2 == grep { $_->now == 2 } @up } 'and one that will fail';

sub ends {
    my ($server, $fails) = @_;
    my ($ends) = grep { !$_->{end} && $fails == ($_->{uri} =~ /rst/) }
        $server->log;
    $server->release_nonce($ends->{nonce});
    wait_for { $server->now == 1 } 15, 'a request ends';
}

ends($other, 0);
eventually { idle('once') == 1 } 'one ends well: its permit stays';
ends($left, 1);
eventually { 1 == grep { $_->done && $_->status == 502 } @held } 'one fails';
$left->release_all;
eventually { 3 == grep { $_->done } @held } 'one ends well behind it';
eventually { $t->state->counts('once') eq '2 0' } 'its permit goes back';
is idle('once'), 1, 'the other one stays';
$other->release_all;
$_->wait for @held;

# or its idle permits stay for a minute
$node->quit;
eventually { !$t->state->exists('gpus') } 'all go back';

$t->done;
