#!/usr/bin/perl

# Servers of a pool by IPv4, by IPv6 and on a socket whose path has odd
# characters: each gets its own requests, and has its name in the variable, the
# API and the metrics.

use lib 't/lib';
use Cpanel::JSON::XS qw(decode_json);
use IO::Socket::IP;

use Dsem::Test;

my $t = Dsem::Test->new;
$t->redis;

# what a server line has, and whether this machine has such addresses
my %line = (
    '127.0.0.1:%%PORT2%%' => 1,
    '[::1]:%%PORT3%%' => defined IO::Socket::IP->new(LocalAddr => '::1',
        LocalPort => 0, Listen => 1),
    'unix:%%DIR%%/a=1 %2F;' => 1,
);
my @lines = grep { $line{$_} } sort keys %line;
my %up = map { $_ => $t->upstream } @lines;

my $node = $t->node('a', join "\n", 'worker_processes 1;', 'upstream gpus {',
    map({ qq(server "$_";) } @lines), <<'EOF_CONF',
    dsem gpus limit=1/server queue=10 timeout=60s;
}
server {
    listen 127.0.0.1:%%PORT%%;
    add_header X-Server "$dsem_server|$upstream_addr";
    location / {
        proxy_pass http://gpus;
    }
    location /dsem/ {
        dsem_api;
    }
}
EOF_CONF
    map { "server { listen \"$_\"; location / { proxy_pass http://"
        . $up{$_}->address . '; } }' } @lines);

# of each the name that nginx has for it
my %name = map {
    my $name = s/%%PORT(\d)%%/$node->port($1)/er =~ s/%%DIR%%/$node->dir/er;
    ($_ => $name);
} @lines;

sub running { return join ' ', map { $up{$_}->now } @lines }
my $all = join ' ', (1) x @lines;
my @held = map { $node->begin('/?hang=1') } @lines;
eventually { running() eq $all } 'each server has one';
my $waits = $node->begin('/?hang=1');
eventually { $t->state->counts('gpus') eq @lines . ' 1' } 'one waits';

# what an operator sees

my $shown;
eventually {
    my $of = decode_json($node->get('/dsem/semaphores')->body);
    my ($pool) = grep { $_->{name} eq 'gpus' } @{ $of->{semaphores} };
    $shown = { map { $_->{server} => $_->{in_use} }
        @{ $pool->{servers} // [] } };
    "@{[ sort keys %$shown ]}" eq "@{[ sort values %name ]}";
} 'the API has their names' or diag explain $shown;
eventually {
    my %of = $node->get('/dsem/metrics')->body
        =~ /^dsem_fleet_server_permits\{.*,server="(.*?)"\} (\d+)$/mg;
    join(' ', map { $of{$_} // '-' } values %name) eq $all;
} 'the metrics, too';

# each is served by its own, what waits by the one that is free

my $first = $lines[0];
$up{$first}->release(1);
eventually { $t->state->counts('gpus') eq @lines . ' 0' && running() eq $all }
    'what waits has the server that is free';
wait_for {
    $_->release_all for values %up;
    !grep { !$_->done } @held, $waits;
} 30, 'the rest';
my @seen = map {
    $_->wait->status . ' ' . $_->header('X-Server')
} @held, $waits;
is_deeply [ sort @seen ],
    [ sort map { "200 $_|$_" } values %name, $name{$first} ],
    'each is where its permit is';
is $up{$_}->peak, 1, "$name{$_}: limit reached, not exceeded" for @lines;

$t->done;
