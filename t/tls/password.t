#!/usr/bin/perl

# User, password and database over TLS: the password is the first thing that
# nginx sends, and a wrong one is named in the log.

use lib 't/lib';
use Dsem::Test;
use Dsem::Tls;

my $t = Dsem::Test->new;
my $tls = Dsem::Tls->new($t);
my $redis = $tls->redis(password => 'admin',
    args => [qw(--requirepass admin)]);
my $up = $t->upstream;

$redis->cmd(qw(ACL SETUSER nginx on >word ~* &* +@all));

my $conf = <<'EOF_CONF';
worker_processes 2;
dsem_redis %%TLS%%;
dsem_on_error reject;
location / {
    dsem api limit=2 queue=50 timeout=30s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

my $node = $t->node('right', $conf,
    TLS => $tls->to($redis) . ' user=nginx password=word db=3');
my $result = $t->load(urls => [ $node->url('/?t=5') ], clients => 20,
    requests => 200);
is_deeply $result->{statuses}, { 200 => 200 }, 'all requests served';
is $up->peak, 2, 'limit reached, never exceeded';
like $redis->cmd(qw(INFO keyspace)), qr/^db3:/m, 'keys in the database';
unlike $redis->cmd(qw(INFO keyspace)), qr/^db0:/m, 'and in no other';
$node->quit;

my $wrong = $t->node('wrong', $conf,
    TLS => $tls->to($redis) . ' user=nginx password=other');
is $wrong->get('/')->status, 503, 'wrong: request refused';
# one line of each worker
eventually { $wrong->grep_log(qr/unavailable \(WRONGPASS /) == 2 }
    'wrong: cause logged';
ok !$_->grep_log(qr/"word"|=word|\bother\b/), $_->name . ': no secret logged'
    for $node, $wrong;
$wrong->quit;

$t->done;
