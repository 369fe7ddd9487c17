#!/usr/bin/perl

# Servers that come and go by DNS: a request gets the server of its permit, what
# waits gets one that is new, and an address that has left gets nothing more,
# while its requests run to their end. No limit of a server is exceeded, and no
# request fails for a change. Needs "resolve", nginx 1.27.3.

use lib 't/lib';
use Cpanel::JSON::XS qw(decode_json);
use Dsem::Test;

plan skip_all => 'servers have no "resolve" before nginx 1.27.3'
    unless nginx_since('1.27.3');

# addresses that a name has at once
my $MANY = 60;

my $t = Dsem::Test->new;
$t->redis;
my ($port, $many_port) = ($t->free_port, $t->free_port);
my @up = map { $t->upstream(host => "127.0.0.1$_", port => $port) } 1 .. 3;
my $many = $t->upstream(host => '0.0.0.0', port => $many_port);
my @ip = map { $_->address =~ s/:.*//r } @up;
my $dns = $t->dns('gpus.dsem.test' => [ @ip[0, 1] ],
    'mixed.dsem.test' => [ '127.0.0.1', '127.0.3.1' ],
    'many.dsem.test' => [ map { "127.0.1.$_" } 1 .. $MANY ],
    'crowd.dsem.test' => [ map { "127.0.4.$_" } 1 .. 65 ]);

my $conf = <<"EOF_CONF";
worker_processes WORKERS;
dsem_reuse off;
resolver %%DNS%% valid=1s ipv6=off;
upstream gpus {
    zone gpus 256k;
    server gpus.dsem.test:$port resolve;
    dsem gpus limit=1/server queue=10 timeout=60s;
    keepalive 4;
}
upstream mixed {
    zone mixed 256k;
    server 127.0.0.1:$many_port;
    server mixed.dsem.test:$many_port resolve;
    dsem mixed limit=1/server queue=10 timeout=60s;
}
upstream many {
    zone many 256k;
    server many.dsem.test:$many_port resolve;
    dsem many limit=1/server queue=100 timeout=60s;
}
upstream crowd {
    zone crowd 256k;
    server crowd.dsem.test:$many_port resolve;
    dsem crowd limit=1/server queue=100 timeout=60s;
}
server {
    listen 127.0.0.1:%%PORT%%;
    proxy_http_version 1.1;
    proxy_set_header Connection "";
    add_header X-Server "\$dsem_server \$upstream_addr" always;
    add_header X-Status \$dsem_status always;
    location / {
        proxy_pass http://gpus;
    }
    location /mixed/ {
        proxy_pass http://mixed;
    }
    location /many/ {
        proxy_set_header X-Sem \$dsem_server;
        proxy_pass http://many;
    }
    location /crowd/ {
        proxy_pass http://crowd;
    }
    location /dsem/ {
        dsem_api;
    }
}
EOF_CONF
my $one = $t->node('n1', $conf =~ s/WORKERS/2/r);
my $two = $t->node('n2', $conf =~ s/WORKERS/1/r);

# where a request was: its server, by the permit and by nginx
sub server {
    my ($request) = @_;
    my ($named, $used) = split ' ', $request->wait->header('X-Server') // '';
    return $request->status == 200 && $named eq $used ? $named
        : join ' ', $request->status, $named // '', $used // '';
}

sub running { return join ' ', map { $_->now } @up }
sub resolves { $dns->set('gpus.dsem.test', @_) }

my @name = map { $_->address } @up;
my ($A, $B, $C) = @name;

sub api {
    my ($node, $pool) = @_;
    my $all = decode_json($node->get('/dsem/semaphores')->body);
    my ($shown) = grep { $_->{name} eq $pool } @{ $all->{semaphores} };
    return join ' ', map { $_->{server} } @{ $shown->{servers} // [] };
}

for my $node ($one, $two) {
    eventually { server($node->get('/')) =~ /^[\d.:]+$/ }
        $node->name . ': addresses are there';
}
eventually { api($one, 'gpus') eq "$A $B" } 'the API has them';

# one leaves while it has a request, another joins

my @held = map { $_->begin('/?hang=1') } $one, $two;
eventually { running() eq '1 1 0' } 'each has a request';
push @held, $two->begin('/?hang=1');
eventually { $t->state->counts('gpus') eq '2 1' } 'one waits';
resolves(@ip[1, 2]);
eventually { running() eq '1 1 1' } 'the one that waits gets the new server';

# of the node that is known to have the addresses: each resolves by itself
my $waits = $two->begin('/');
eventually { $t->state->counts('gpus') eq '3 1' } 'another one waits';
$up[0]->release;
eventually { $t->state->counts('gpus') eq '2 1' }
    'the permit of the server that has left is granted no more';
$up[1]->release;
is server($waits), $B, 'it gets a server of before that is free';
$up[2]->release;
wait_for { $t->state->counts('gpus') eq '0 0' } 15, 'all have ended';
is_deeply [ sort map { server($_) } @held ], [ $A, $B, $C ],
    'requests end well that ran when the addresses changed';

wait_for { server($one->get('/')) eq $C } 15, 'the other one to have them';
is scalar(grep { server($_->get('/')) =~ /^(\Q$B\E|\Q$C\E)$/ }
    ($one, $two) x 6), 12, 'only the others get requests';
is api($two, 'gpus'), "$B $C", 'the API has these';

# after a reload the last addresses are there at once

$one->reload;
is scalar(grep { server($_) =~ /^(\Q$B\E|\Q$C\E)$/ }
    map { $one->get('/') } 1 .. 4), 4, 'no request fails after a reload';
resolves(@ip[0, 2]);
my @both;
eventually {
    wait_for { $t->state->counts('gpus') eq '0 0' } 15, 'no request';
    @both = map { $_->begin('/?t=10') } $one, $one;
    "@{[ sort map { server($_) } @both ]}" eq "$A $C";
} 'what comes then is used';

# without any address there is no server

@held = map { $one->begin('/?hang=1') } 1, 2;
eventually { running() eq '1 0 1' } 'both have a request';
$waits = $one->begin('/');
eventually { $t->state->counts('gpus') eq '2 1' } 'one waits';
resolves();
my $failed;
eventually {
    $failed = $one->begin('/');
    wait_for { $failed->done || $t->state->waiting('gpus') == 2 } 15, 'or not';
    return 1 if $failed->done;
    $failed->close;
    wait_for { $t->state->waiting('gpus') == 1 } 15, 'it waits no more';
    return 0;
} 'a new request is answered';
is $failed->status . ' ' . $failed->header('X-Status'), '502 ERROR',
    'as there is no server';
$_->release for @up[0, 2];
eventually { $t->state->counts('gpus') eq '0 1' } 'one still waits';
resolves($ip[1]);
is server($waits), $B, 'and is served when there is one again';
is_deeply [ sort map { server($_) } @held ], [ $A, $C ],
    'those that ran end well, too';
is $_->peak, 1, $_->address . ': limit reached, not exceeded' for @up;

# an address that is written, and that DNS has, is one server

wait_for { server($one->get('/mixed/')) =~ /^127\.0\.3\./ } 15, 'DNS is read';
my @hang = map { $one->begin('/mixed/?hang=1') } 1 .. 3;
eventually { $t->state->counts('mixed') eq '2 1' && $many->now == 2 }
    'it has one request, the other address one';
$many->release(1);
eventually { $many->now == 2 && $t->state->counts('mixed') eq '2 0' }
    'the third waited';
$many->release_all;
is_deeply [ sort { $a cmp $b } uniq(map { server($_) } @hang) ],
    [ map { "$_:$many_port" } qw(127.0.0.1 127.0.3.1) ], 'each where it can be';

# a worker has 64 numbers for servers, and uses those of addresses that left anew

sub alone { return grep { $many->peak("$_:$many_port") == 1 } @_ }
my @old = map { "127.0.1.$_" } 1 .. $MANY;
my @new = map { "127.0.2.$_" } 1 .. $MANY;
@hang = map { $two->begin('/many/?hang=1') } @old;
eventually { $many->now == $MANY } "$MANY servers have a request";
is scalar(alone(@old)), $MANY, 'each one';
$dns->set('many.dsem.test', @new);
like server($two->get('/many/')), qr/^127\.0\.2\./, 'a new one gets requests';
eventually { $two->grep_log(qr/\[error\].*"many" has more than 64 servers/) }
    'not all: logged';
like server($two->get('/crowd/')), qr/^127\.0\.4\./, 'another pool has too many';
eventually { $two->grep_log(qr/\[error\].*"crowd" has more than 64 servers/) }
    'logged, too';
$many->release($MANY - 1);
push @hang, map { $two->begin('/many/?hang=1') } @new;
eventually { $many->now == $MANY + 1 } 'then all get one';
is scalar(alone(@new)), $MANY, 'each one';
$many->release_all;
is scalar(grep { server($_) !~ /^127\.0\.[12]\.\d+:\d+$/ } @hang), 0,
    'no request failed';

my ($status, $output) = $t->test_conf($conf =~ s/WORKERS/1/r
    =~ s/resolve;/resolve max_fails=0;/r);
is $status, 0, 'configuration accepted' or diag $output;
like $output, qr/server gpus\.dsem\.test:$port of .* has "max_fails=0"/,
    'warned of a server that is never failed';

$t->done;

sub uniq { my %seen; return grep { !$seen{$_}++ } @_ }
