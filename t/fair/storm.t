#!/usr/bin/perl

# Four keys overload a short queue over three nodes while a third of the
# clients leave, connections are cut, scripts are lost, workers are killed and
# a node is reloaded. Requests are dropped all the time. The limit holds, no
# permit and no ticket is lost, and counts agree.

use lib 't/lib';
use Dsem::Test;

my $SECONDS = $ENV{DSEM_LONG} ? 60 : 2.5;

my $t = Dsem::Test->new(lease => 1);
my $redis = $t->redis;
my $up = $t->upstream(service => 0.005);
$t->expect_log(qr/worker process \d+ exited on signal 9/);

my $conf = <<'EOF_CONF';
worker_processes 2;
worker_connections 1024;
dsem_lease 1s;
dsem_log_level info;
error_log error.log notice;
location / {
    dsem api limit=3 queue=12 timeout=5s fair=$arg_k
        priority=$arg_p weight=$arg_w;
    proxy_set_header X-Weight $arg_w;
    proxy_pass http://%%UPSTREAM%%;
}
location /plain {
    dsem api limit=3 queue=12 timeout=5s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF
my @fleet = $t->fleet(3, $conf);

my @paths = ('/?k=a', '/?k=b', '/?k=b&w=2', '/?k=c&p=1', '/?k=d', '/plain');
my @load = map {
    my $path = $_;
    $t->load_start(urls => [map { $_->url($path) } @fleet], clients => 8,
        seconds => 600, timeout => 20,
        abort => sub { rand() < 0.3 ? rand 0.02 : undef });
} @paths;
wait_for { $up->now == 3 } 15, 'load';

my ($n, $end) = (0, now + $SECONDS);
my @trouble = (
    sub { $redis->client_kill },
    sub { $fleet[0]->reload },
    sub { $redis->cmd(qw(SCRIPT FLUSH)) },
    sub { $fleet[1]->kill_worker },
    sub { $redis->cmd('DEL', 'dsem:{0}:f:api') },
);
while (now < $end || $up->served < 200) {
    $trouble[$n++ % @trouble]->();
    my $next = now + 0.25;
    wait_for { now >= $next } 2, 'a while';
}
my %statuses;
for my $load (map { $_->stop->wait } @load) {
    $statuses{$_} += $load->{statuses}{$_} for keys %{ $load->{statuses} };
}
note join ', ', map { "$_ $statuses{$_}" } sort keys %statuses;
cmp_ok $statuses{200}, '>', 100, 'many served';
cmp_ok $statuses{503}, '>', 20, 'many rejected';
is $up->peak, 3, 'limit reached, never exceeded';
eventually { $t->state->held('api') == 0 && $t->state->waiting('api') == 0 }
    'nothing left';
my @counts = map { $_->grep_log(qr/counts differ/) } @fleet;
cmp_ok scalar(@counts), '<=', $n, 'counts agree'
    or diag join "\n", @counts;
note scalar(@counts) . ' times counts differed';

$t->done;
