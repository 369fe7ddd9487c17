#!/usr/bin/perl

# More names than the zone has rows for, by two workers: no request is missing
# in the sum over all names and the other ones, and a name that was there
# first keeps its row. DSEM_LONG=1: a million names.

use lib 't/lib';
use Cpanel::JSON::XS qw(decode_json);
use Dsem::Http2;
use Dsem::Test;
use List::Util qw(sum0);

my $NAMES = $ENV{DSEM_LONG} ? 1_000_000 : 4000;

my $t = Dsem::Test->new;
$t->redis;

my $node = $t->node('n1', <<'EOF_CONF');
worker_processes 2;
worker_connections 2048;
access_log off;
keepalive_requests 10000000;
dsem_redis_timeout 30s;
dsem_zone_size 64k;
dsem_log_level info;
server {
    listen 127.0.0.1:%%PORT%% http2 reuseport;
    error_log error.log warn;
    location /any {
        dsem "$http_x_tenant" limit=1 weight=$arg_weight;
        proxy_pass http://127.0.0.1:%%PORT2%%;
    }
    location /popular {
        dsem popular limit=1000;
        proxy_pass http://127.0.0.1:%%PORT2%%;
    }
}
server {
    listen 127.0.0.1:%%PORT2%%;
    location / {
        return 204;
    }
}
server {
    listen 127.0.0.1:%%PORT3%%;
    location /dsem/ {
        dsem_api;
    }
}
EOF_CONF

sub figures {
    my $url = 'http://127.0.0.1:' . $node->port(3) . '/dsem/semaphores';
    my $all = decode_json($node->client->get($url)->body);
    return { map { $_->{name} => $_->{local} } @{ $all->{semaphores} },
        { name => '', local => $all->{other} } };
}

sub sum {
    my ($figures, @results) = @_;
    return sum0 map { @$_{@results} } values %$figures;
}

my (%seen, $popular, $n);
my @h2 = map { Dsem::Http2->new($node->raw) } 1 .. 6;
my $resident = 0;
for my $h2 (@h2) {
    $seen{ $h2->status($h2->get('/popular')) }++;
    $popular++;
}
for my $breath (1 .. $NAMES / 100) {
    my $h2 = $h2[ $breath % @h2 ];
    my @requests = map { [$h2->request($_ % 2 ? '/any' : '/any?weight=2',
        'x-tenant' => 'name-' . ++$n)] } 1 .. 100;
    my @popular = map { [$h2->request('/popular')] } 1 .. 3;
    $popular += @popular;
    $h2->send(join '', map { $_->[1] } @requests, @popular);
    $seen{ $h2->status($_->[0]) }++ for @requests, @popular;
    delete @$h2{qw(status ended body)};
    $resident = $node->resident if $breath == int $NAMES / 200;
}
$_->close for @h2;

is join(' ', sort keys %seen), '204 503', 'all passed or rejected';

my $figures = figures();
# whatever the reason: on a slow machine Redis may have been unavailable
is sum($figures, qw(passed queued degraded)), $seen{204},
    'all that passed are counted';
is sum($figures, qw(rejected timeout error)), $seen{503},
    'all refused are counted';
is sum({ popular => $figures->{popular} }, qw(passed queued degraded)),
    $popular, 'first name keeps its row';
cmp_ok scalar(keys %$figures), '<', 100, 'few rows';
cmp_ok $figures->{''}{passed}, '>', $NAMES / 4, 'most names have none';
eventually { my $now = figures(); !grep { $_->{in_use} } values %$now }
    'nothing held';
cmp_ok $node->resident - $resident, '<', 1 << 20, 'memory flat';
note scalar(keys %$figures), ' rows';

$t->done;
