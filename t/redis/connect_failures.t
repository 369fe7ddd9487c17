#!/usr/bin/perl

# Hundreds of attempts to connect fail: refused, accepted and closed, or
# without a reply. No file descriptor and no memory is lost, and the first
# attempt succeeds when Redis is available.

use lib 't/lib';
use Dsem::Test;

# attempts, and seconds of those that no proxy can count
my ($ATTEMPTS, $SECONDS) = $ENV{DSEM_LONG} ? (150, 30) : (10, 1.5);
# KB; sanitizers keep for a while what is freed
my $FLAT = $ENV{DSEM_TIME_FACTOR} ? 2048 : 128;

my $t = Dsem::Test->new(lease => 1);
my $redis = $t->redis;
my $up = $t->upstream;

my $conf = <<'EOF_CONF';
worker_processes 1;
dsem_redis_connect_timeout 200ms;
dsem_redis_timeout 200ms;
dsem_lease 1s;
location /asks {
    dsem api limit=2 queue=10;
    dsem_on_error reject;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

my $nobody = '127.0.0.1:' . $t->free_port;
my %MANNER = (
    closed => [ sub { $_[0]->retarget($nobody); $_[0]->reset },
        sub { $_[0]->retarget($redis->address) } ],
    silent => [ sub { $_[0]->reset; $_[0]->freeze }, sub { $_[0]->thaw } ],
    refused => [ sub { $_[0]->refuse; $_[0]->reset },
        sub { $_[0]->refuse(0) } ],
);

sub files {
    my ($of) = @_;
    return scalar(my @fds = glob "/proc/$of->{worker}/fd/*");
}

sub kb { return $_[0]{node}->resident / 1024 }

# a node with a proxy of its own for each, and all fail at the same time
my @all;
for my $how (sort keys %MANNER) {
    my $proxy = $t->proxy($redis->address);
    my $node = $t->node($how, $conf, REDIS => $proxy->address);
    my ($worker) = $node->workers;
    push @all, { how => $how, proxy => $proxy, node => $node,
        worker => $worker };
}
eventually { $t->state->session_count == @all } 'connected';
for my $of (@all) {
    # a reply that is late by 200 ms refuses it
    eventually { $of->{node}->get('/asks?t=1')->status == 200 }
        'request served';
    # once the connections of the first request are closed
    my $same = 0;
    $of->{files} = files($of);
    wait_for {
        my $n = files($of);
        $same = $n == $of->{files} ? $same + 1 : 0;
        $of->{files} = $n;
        $same > 20;
    } 15, 'connections of the first request to close';
}

for my $of (@all) {
    my ($how, $proxy, $node) = @$of{qw(how proxy node)};
    $node->clear_logs;
    $of->{accepted} = $proxy->accepted;
    $MANNER{$how}[0]->($proxy);
    wait_for { $node->grep_log(qr/unavailable \(/) == 1 } 15,
        'redis unavailable';
    @$of{qw(began before most)} = (now, kb($of), 0);
}
wait_for {
    for my $of (@all) {
        my $n = files($of);
        $of->{most} = $n if $n > $of->{most};
    }
    !grep { $_->{how} eq 'refused' ? now < $_->{began} + $SECONDS
        : $_->{proxy}->accepted < $_->{accepted} + $ATTEMPTS } @all;
} 60 + 2 * $SECONDS, 'many attempts';

for my $of (@all) {
    my ($how, $proxy, $node) = @$of{qw(how proxy node)};
    cmp_ok $of->{most}, '<=', $of->{files}, "$how: descriptors flat";
    cmp_ok kb($of) - $of->{before}, '<', $FLAT, "$how: memory flat";
    my $n = $proxy->accepted - $of->{accepted};
    my $seconds = now - $of->{began};
    cmp_ok $n, '>=', $ATTEMPTS, "$how: many attempts" if $how ne 'refused';
    cmp_ok $n, '<', 60 * $seconds, "$how: attempts bounded";
    note sprintf '%s: %d attempts in %.1f s', $how, $n, $seconds;
    is scalar($node->grep_log(qr/\[(?:warn|error|crit)\]/)), 1,
        "$how: one line logged";
    is scalar($node->grep_log(qr/use TLS/)), 0, "$how: no doubt about TLS";
    $MANNER{$how}[1]->($proxy);
    eventually { $node->grep_log(qr/available again/) == 1 }
        "$how: available again";
    # the state may recover for a part of the lease
    eventually { $node->get('/asks?t=1')->status == 200 }
        "$how: request served";
    eventually { files($of) <= $of->{files} } "$how: two connections again";
}

$t->done;
