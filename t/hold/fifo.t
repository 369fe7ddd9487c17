#!/usr/bin/perl

# Commands of dsem-run at three nodes wait in one queue: first come, first
# served.

use lib 't/lib';
use Dsem::Clock;
use Dsem::Test;

my $N = 6;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $clock = Dsem::Clock->new($t, monotonic => 1);
my @fleet = $clock->fleet(3, <<'EOF_CONF');
dsem_lease 10m;
location /jobs {
    dsem jobs limit=1 queue=100 timeout=100s;
    dsem_hold;
}
EOF_CONF

# a worker serves its own next request while a reply is late: none ever is
wait_for { $t->state->subscribed == 3 } 15, 'all to be told of grants';
$clock->stop;

my $holder = $fleet[0]->hold('/jobs');

my $log = $t->dir . '/log';
my @pids;
for my $n (1 .. $N) {
    push @pids, fork // die "fork: $!";
    exec "$Dsem::Test::ROOT/bin/dsem-run", $fleet[$n % 3]->url('/jobs'), '--',
        'sh', '-c', 'echo "$1" >> "$0"', $log, $n or die "exec: $!"
        if !$pids[-1];
    wait_for { $t->state->waiting('jobs') == $n } 15, "$n waiting";
}

$holder->close;
waitpid $_, 0 for @pids;
open my $fh, '<', $log or die "$log: $!";
chomp(my @order = readline $fh);
is_deeply \@order, [ 1 .. $N ], 'served in the order in which they came';
$clock->go;

$t->done;
