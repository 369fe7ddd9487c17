#!/usr/bin/perl

# What a fleet needs of Redis, and what the way to Redis costs: the figures of
# docs/sizing.md.
#
#   perl -It/lib t/bench/size.pl
#
# Half a minute for the memory, a minute and a half in all. Exit status: 0 when
# everything was measured, whatever the results.

use strict;
use warnings;

use lib 't/lib';
use Dsem::Test;

my $N = 500;

$ENV{MALLOC_PERTURB_} = 0;
my $t = Dsem::Test->new;
my $redis = $t->redis;
my $up = $t->upstream(service => 0.05);
my $admin = $redis->client;

my $conf = <<'EOF_CONF';
%%GLOBALS%%
worker_processes %%WORKERS%%;
events { worker_connections 4096; }
http {
    %%HTTP%%
    dsem_redis %%STORE%%;
    dsem_node %%NODE%%;
    dsem_reuse 5s;
    server {
        listen 127.0.0.1:%%PORT%%;
        location /tenants {
            dsem "tenant:$arg_n" limit=5 queue=10;
            proxy_pass http://%%UPSTREAM%%;
        }
        location /queue {
            dsem queue limit=1 queue=100000 timeout=60s;
            proxy_pass http://%%UPSTREAM%%;
        }
        location /limit {
            dsem limit limit=10 queue=1000 timeout=60s;
            proxy_pass http://%%UPSTREAM%%;
        }
    }
}
EOF_CONF

sub node {
    my ($name, $workers, $store) = @_;
    return $t->node($name, $conf, WORKERS => $workers,
        STORE => $store // $redis->address);
}

sub rest {
    my ($seconds) = @_;
    my $begin = now;
    wait_for { now > $begin + $seconds } 60 + $seconds, 'time';
}

sub figures {
    my %info = $admin->cmd('INFO', 'everything') =~ /^(\w+):([\d.]+)\r?$/mg;
    return { memory => $info{used_memory}, in => $info{total_net_input_bytes},
        out => $info{total_net_output_bytes},
        cpu => 1e6 * ($info{used_cpu_user} + $info{used_cpu_sys}) };
}

# A line with what was used, for each of n.
sub show {
    my ($what, $from, $to, $n, @names) = @_;
    printf "%-50s %s\n", $what, join ', ', map {
        sprintf '%s %.0f', $_, ($to->{$_} - $from->{$_}) / $n } @names;
}

my $start = figures();
my $node = node('a', 2);
$redis->all_beat(2);
rest(2);
my $one = figures();
show('a first node of two workers', $start, $one, 1, 'memory');
my $many = node('b', 20);
$redis->all_beat(22);
rest(3);
my $from = figures();
show('each further worker', $one, $from, 20, 'memory');
rest(10);
show('each worker at rest, a second', $from, figures(), 220, qw(in out cpu));
$many->quit;
rest(1);

$from = figures();
my @held = map { $node->begin("/tenants?n=customer-$_&hang=1") } 1 .. $N;
wait_for { $up->now == $N } 60, 'all at the backend';
show('each tenant with a permit in use', $from, figures(), $N, qw(memory in out));
$up->release_all;
$_->wait for @held;
rest(8);
show('each tenant at rest', $from, figures(), $N, 'memory');

my $first = $node->begin('/queue?hang=1');
wait_for { $up->now == 1 } 15, 'one at the backend';
$from = figures();
@held = map { $node->begin("/queue?n=$_") } 1 .. $N;
wait_for { $t->state->waiting('queue') == $N } 60, 'all wait';
show('each waiting request', $from, figures(), $N, qw(memory in out cpu));
$_->close for @held;
wait_for { $t->state->waiting('queue') == 0 } 60, 'none waits';
$up->release_all;
$first->wait;

for my $ms (0, 1, 5, 20) {
    my $proxy = $t->proxy($redis->address);
    $proxy->delay($ms / 2000, 'both') if $ms;
    my @nodes = map { node("$_$ms", 2, $proxy->address) } qw(x y);
    rest(2);
    for my $clients (60, 4) {
        $from = figures();
        my $load = $t->load(urls => [map { $_->url('/limit?t=50') } @nodes],
            clients => $clients, seconds => 6);
        show(sprintf('%d ms, %d clients: %.0f/s, %.0f and %.0f ms', $ms, $clients,
            $load->{rate}, 1000 * $load->{p50}, 1000 * $load->{p99}),
            $from, figures(), $load->{count}, qw(in out cpu));
    }
    $_->quit for @nodes;
}

$t->done;
