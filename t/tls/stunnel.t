#!/usr/bin/perl

# Without TLS in hiredis: stunnel encrypts for nginx, with the configuration of
# docs/redis.md. The limit holds and messages arrive; a restart of Redis is no
# outage for long. A server with a certificate of another name gets no byte of
# a command.

use lib 't/lib';
use IO::Socket::INET ();

use Dsem::Pages;
use Dsem::Process;
use Dsem::Test;
use Dsem::Tls;

my $t = Dsem::Test->new;
plan(skip_all => 'stunnel4 is not installed')
    if !grep { -x "$_/stunnel4" } split /:/, "$ENV{PATH}:/usr/bin";
my $tls = Dsem::Tls->certificates($t);
my $redis = $tls->redis(san => 'DNS:redis.example');
my $other = $tls->redis(san => 'DNS:other.example');
my $up = $t->upstream;

my ($recipe) = section('TLS') =~ /^```\n(client = yes\n.*?)^```$/ms;
like section('TLS'), qr/`dsem_redis 127\.0\.0\.1:6380`/, 'address for nginx';

sub stunnel {
    my ($name, $to) = @_;
    my $port = $t->free_port;
    my %here = ('127.0.0.1:6380' => "127.0.0.1:$port",
        'redis.example:6380' => $to->tls_address,
        '/etc/nginx/redis-ca.pem' => $tls->ca);
    my $text = $recipe;
    for my $from (sort keys %here) {
        ok $text =~ s/\Q$from\E$/$here{$from}/m, "$name: $from replaced";
    }
    my $path = $t->dir . "/$name.conf";
    open my $fh, '>', $path or die "$path: $!";
    print $fh $text;
    close $fh;
    Dsem::Process->spawn(name => $name, log => $t->dir . "/$name.log",
        argv => [ '/usr/bin/env', 'stunnel4', $path ]);
    eventually { IO::Socket::INET->new("127.0.0.1:$port") }
        "$name: listens";
    return "127.0.0.1:$port";
}

my $conf = <<'EOF_CONF';
worker_processes 1;
dsem_redis %%TUNNEL%%;
dsem_redis_connect_timeout %%TIMEOUT%%;
dsem_on_error reject;
location / {
    dsem api limit=2 queue=100 timeout=30s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

my $tunnel = stunnel('tunnel', $redis);
my @fleet = $t->fleet(2, $conf, TUNNEL => $tunnel, TIMEOUT => '10s');
my $began = now;
my $load = $t->load_start(urls => [ map { $_->url('/?t=10') } @fleet ],
    clients => 20, requests => 300);
wait_for { $up->served > 100 } 30, 'a part served';
$redis->client_kill;
my $result = $load->wait;
is_deeply $result->{statuses}, { 200 => 300 }, 'all requests served';
is $up->peak, 2, 'limit reached, never exceeded';
# by checks alone it would take a minute
cmp_ok took($began, $began + $result->{seconds}), '<', 20,
    'granted by messages';

$redis->empty;
eventually { $_->get('/?t=1')->status == 200 } 'served after a restart'
    for @fleet;

my $wrong = $t->node('wrong', $conf, TUNNEL => stunnel('wrong', $other),
    TIMEOUT => '1s');
is $wrong->get('/?t=1')->status, 503, 'wrong name: request refused';
my @lines = $tls->unavailable($wrong);
is scalar(@lines), 1, 'wrong name: logged once';
like "@lines", qr/unavailable \(.* \(does the server use TLS\?\)\), requests/,
    'wrong name: cause logged';
is $other->calls->{evalsha} // 0, 0, 'wrong name: no call';

$t->done;
