#!/usr/bin/perl

# What else DNS has of servers: a service with ports and priorities (SRV), backup
# servers, and IPv6 addresses. Each server has its permits, and those of backups
# are granted where no primary server is usable. Needs "resolve", nginx 1.27.3.

use lib 't/lib';
use Cpanel::JSON::XS qw(decode_json);
use IO::Socket::IP;
use Dsem::Test;

plan skip_all => 'servers have no "resolve" before nginx 1.27.3'
    unless nginx_since('1.27.3');
my $ipv6 = IO::Socket::IP->new(LocalAddr => '::1', Listen => 1);

my $t = Dsem::Test->new;
$t->redis;
# counts by server: all addresses of this machine have its ports
my $up = $t->upstream(host => $ipv6 ? '::' : '0.0.0.0', ports => 3);
my ($first, $second, $third) = map { /(\d+)$/ } $up->addresses;

my $service = '_http._tcp.gpus.dsem.test';
my $dns = $t->dns(
    $service => [ [1, 1, $first, 'a.dsem.test'], [1, 1, $second, 'a.dsem.test'],
        [5, 1, $third, 'b.dsem.test'] ],
    'a.dsem.test' => ['127.0.0.1'], 'b.dsem.test' => ['127.0.0.2'],
    'c.dsem.test' => ['127.0.0.3'], 'spare.dsem.test' => ['127.0.1.2'],
    'both.dsem.test' => [ '127.0.2.1', '::1' ]);

my $node = $t->node('a', <<"EOF_CONF");
worker_processes 1;
dsem_reuse off;
resolver %%DNS%% valid=1s ipv6=@{[ $ipv6 ? 'on' : 'off' ]};
upstream service {
    zone service 256k;
    server gpus.dsem.test service=http resolve fail_timeout=3600;
    dsem service limit=1/server queue=10 timeout=60s;
}
upstream spare {
    zone spare 256k;
    server main.dsem.test:$first resolve;
    server spare.dsem.test:$first resolve backup;
    dsem spare limit=1/server queue=10 timeout=60s;
}
upstream both {
    zone both 256k;
    server both.dsem.test:$first resolve;
    dsem both limit=1/server queue=10 timeout=60s;
}
server {
    listen 127.0.0.1:%%PORT%%;
    proxy_set_header X-Sem \$dsem_server;
    proxy_set_header X-Node \$dsem_server;
    add_header X-Server "\$dsem_server \$upstream_addr" always;
    location /service {
        proxy_pass http://service;
    }
    location /spare {
        proxy_pass http://spare;
    }
    location /both {
        proxy_pass http://both;
    }
    location /dsem/ {
        dsem_api;
    }
}
EOF_CONF

# where a request was, by the permit and by nginx
sub server {
    my ($request) = @_;
    my ($named, $used) = split ' ', $request->wait->header('X-Server') // '';
    return $request->status == 200 && $named eq $used ? $named
        : join ' ', $request->status, $named // '', $used // '';
}

sub is_served { $_[0] =~ /^\S+$/ }

# a request at each of these servers, and one that waits
sub full {
    my ($pool, @servers) = @_;
    my @held = map { $node->begin("/$pool?hang=1") } @servers;
    eventually { @servers == grep { $up->now($_) == 1 } @servers }
        "$pool: each has a request";
    push @held, $node->begin("/$pool?hang=1");
    eventually { $t->state->counts($pool) eq @servers . ' 1' }
        'the next one waits';
    is $up->now, scalar @servers, 'at no server';
    return @held;
}

# all end, each at one of these servers, which all had requests
sub ended {
    my ($pool, $servers, @requests) = @_;
    $up->release_all;
    my %at = map { server($_) => 1 } @requests;
    is_deeply [ sort keys %at ], [ sort @$servers ],
        "$pool: each at its server";
    wait_for { $t->state->counts($pool) eq '0 0' } 15, 'all have ended';
    is_deeply [ grep { $up->peak($_) != 1 } @$servers ], [],
        'limits reached, not exceeded';
}

# what a service says of ports and priorities

eventually { is_served(server($node->get('/service'))) } 'a service is there';
my ($one, $two) = map { "127.0.0.1:$_" } $first, $second;
my $backup = "127.0.0.2:$third";
my @held = full('service', $one, $two);
is $up->now($backup), 0, 'a backup is not used while primary servers are full';

my $raised = "127.0.0.3:$third";
$dns->set($service, [1, 1, $second, 'a.dsem.test'],
    [1, 1, $third, 'c.dsem.test'], [5, 1, $third, 'b.dsem.test']);
eventually { $up->now($raised) == 1 } 'a server that joins gets what waits';
ended('service', [ $one, $two, $raised ], @held);

# all of one priority leave, or fail: the next priority is used

$dns->set($service, [5, 1, $third, 'b.dsem.test']);
eventually { server($node->get('/service')) eq $backup }
    'the only ones left are used, whatever their priority';
$dns->set($service, [1, 1, $first, 'a.dsem.test'],
    [1, 1, $second, 'a.dsem.test'], [5, 1, $third, 'b.dsem.test']);
eventually { server($node->get('/service')) eq $one } 'primary servers are back';
$up->refuse($_) for $one, $two;
eventually { server($node->get('/service')) eq $backup }
    'primary servers have failed';
@held = full('service', $backup);
$dns->set($service, [1, 1, $third, 'c.dsem.test'],
    [5, 1, $third, 'b.dsem.test']);
eventually { $up->now($raised) == 1 } 'a new primary server gets what waits';
ended('service', [ $backup, $raised ], @held);
is server($node->get('/service')), $raised, 'and all that follows';

# a backup by its name

my ($main, $spare) = ("127.0.1.1:$first", "127.0.1.2:$first");
eventually { server($node->get('/spare')) eq $spare } 'no address: the backup';
@held = full('spare', $spare);
$dns->set('main.dsem.test', '127.0.1.1');
eventually { $up->now($main) == 1 } 'an address gets what waits';
ended('spare', [ $spare, $main ], @held);
@held = full('spare', $main);
$dns->set('main.dsem.test');
eventually { $up->now($spare) == 1 } 'no address any more: the backup again';
ended('spare', [ $spare, $main ], @held);

# addresses of both families

SKIP: {
    skip 'no IPv6 here', 9 unless $ipv6;
    my ($four, $six) = ("127.0.2.1:$first", "[::1]:$first");
    eventually { is_served(server($node->get('/both'))) } 'addresses are there';
    @held = full('both', $four, $six);
    my $all = decode_json($node->get('/dsem/semaphores')->body);
    my ($pool) = grep { $_->{name} eq 'both' } @{ $all->{semaphores} };
    is_deeply { map { $_->{server} => $_->{in_use} } @{ $pool->{servers} } },
        { $four => 1, $six => 1 }, 'the API has both';
    $up->release(1);
    eventually { $t->state->counts('both') eq '2 0' && $up->now == 2 }
        'it gets the one that is free again';
    ended('both', [ $four, $six ], @held);
    $dns->set('both.dsem.test', '::1');
    eventually {
        @held = map { $node->begin('/both?t=1') } 1 .. 4;
        4 == grep { server($_) eq $six } @held;
    } 'the family that is left';
}

$t->done;
