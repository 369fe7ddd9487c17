#!/usr/bin/perl

# With each balancing method of nginx, with and without a zone and cached
# connections, a request reaches the server that its permit is for.

use lib 't/lib';
use Dsem::Test;

my @METHODS = ('', 'least_conn;', 'hash $arg_key;',
    'hash $arg_key consistent;', 'ip_hash;', 'random two;');

my $t = Dsem::Test->new;
$t->redis;
my @up = map { $t->upstream } 1 .. 3;
my @servers = map { 'server ' . $_->address . ';' } @up;

my (%pools, $upstreams, $locations);
for my $method (@METHODS) {
    for my $zoned (0, 1) {
        for my $cached (0, 1) {
            my $name = 'p' . keys %pools;
            $pools{$name} = join ' ', $method || 'round robin;',
                $zoned ? 'zone;' : (), $cached ? 'keepalive;' : ();
            my $zone = $zoned ? "zone $name 64k;" : '';
            my $keepalive = $cached ? 'keepalive 8;' : '';
            $upstreams .= "upstream $name { $zone $method @servers "
                . "dsem $name limit=1/server queue=10 timeout=60s; "
                . "$keepalive }\n";
            $locations .= "location /$name/ { proxy_pass http://$name; }\n";
        }
    }
}

my $node = $t->node('a', <<"EOF_CONF");
worker_processes 2;
$upstreams
server {
    listen 127.0.0.1:%%PORT%%;
    proxy_http_version 1.1;
    proxy_set_header Connection "";
    add_header X-Server "\$dsem_server \$upstream_addr";
    $locations
}
EOF_CONF

for my $name (sort { substr($a, 1) <=> substr $b, 1 } keys %pools) {
    my @held = map { $node->begin("/$name/?hang=1") } @up;
    eventually {
        join(' ', map { $_->now } @up) eq '1 1 1'
    } "$pools{$name} each server has one";
    my $waits = $node->begin("/$name/");
    wait_for { $t->state->waiting($name) == 1 } 15, 'one waits';
    $_->release(1) for @up;
    my @said = map { $_->wait->status . ' ' . $_->header('X-Server') }
        @held, $waits, map { $node->begin("/$name/") } 1 .. 2;
    is scalar(grep { !/^200 (\S+) \1$/ } @said), 0,
        "$pools{$name} each is where its permit is"
        or diag join "\n", @said;
}
is $_->peak, 1, 'limit of a server reached, not exceeded' for @up;
is scalar($node->grep_log(qr/\[(error|crit)\]/)), 0, 'no error logged';

$t->done;
