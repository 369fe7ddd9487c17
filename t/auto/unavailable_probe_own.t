#!/usr/bin/perl

# The connection to Redis is lost while the limit is lowered for a probe, and
# more is in use: own permits serve as before the probe. In a pause they do not.

use lib 't/lib';
use Dsem::Test;

my ($FOUND, $PROBED) = (20, 15);

my $t = Dsem::Test->new(lease => 60);
my $redis = $t->redis;
my $up = $t->upstream;
my $state = $t->state;
my $proxy = $t->proxy($redis->address);

my $node = $t->node('a', <<'EOF_CONF', REDIS => $proxy->address);
worker_processes 1;
dsem_lease 60s;
location /probe {
    dsem api limit=auto max=100 queue=200 timeout=60s;
    proxy_pass http://%%UPSTREAM%%;
}
location /last {
    dsem last limit=1;
    empty_gif;
}
EOF_CONF

wait_for { $state->lowest_limit('api') } 15, 'the session';
$state->set_found('api', $FOUND);
is $node->get('/probe')->status, 200, 'a request';
wait_for { $state->rule('api')->{found} } 15, 'its sample';

my @all = map { $node->begin("/probe?hang=1&n=$_") } 1 .. $FOUND;
wait_for { $up->now == $FOUND } 15, 'all that are allowed run';
my @running = @all;

# A probe, and a sample of a request that ends during it.
wait_for {
    $state->set_rule('api', mode => 1, base => $FOUND, changed => 0,
        mean => 0, count => 0);
    $state->set_found('api', $PROBED);
    my $first = shift @running;
    $up->release_nonce($first->nonce);
    $first->wait;
    wait_for { $state->rule('api')->{count} || !$state->rule('api')->{mode} }
        15, 'a sample';
    $state->rule('api')->{mode};
} 15, 'a probe';
cmp_ok scalar(@running), '>', $PROBED, 'more is in use';
push @all, my @waits = map { $node->begin("/probe?hang=1&n=w$_") } 1 .. 9;
wait_for { $state->waiting('api') == 9 } 15, 'others wait';
is $state->lowest_limit('api'), $PROBED, 'the limit of the probe in force';
is $node->get('/last')->status, 200, 'no reply awaited';

sub lose {
    $node->clear_logs;
    $proxy->refuse(1);
    $proxy->reset;
    wait_for { scalar $node->grep_log(qr/redis \S+ unavailable/) } 15, 'no Redis';
}
sub end_one {
    my $first = shift @running;
    $up->release_nonce($first->nonce);
    is $first->wait->status, 200, 'one ends';
}

lose();
my $n = $up->now;
end_one();
eventually { $up->now == $n } 'its permit serves another one';

$proxy->refuse(0);
wait_for { scalar $node->grep_log(qr/available again/) } 15, 'Redis is back';
$state->order('api', '- 1');
push @all, $node->begin('/probe?hang=1&n=pause');
wait_for { $state->waiting('api') == 9 } 15, 'it waits, too';
is $node->get('/last')->status, 200, 'no reply awaited';

lose();
end_one();
is $node->get('/last')->status, 503, 'comes behind it';
is $up->now, $n - 1, 'its permit serves none in a pause';

$proxy->refuse(0);
$state->drop_orders;
wait_for { $up->release_all; !grep { !$_->done } @all } 30, 'all end';
is scalar(grep { $_->status != 200 } @all), 0, 'all served';

$t->done;
