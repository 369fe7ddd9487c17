#!/usr/bin/perl

# Redis has lost its state, and of the fleet only a worker has come that was
# started since: how many share the limit is unknown. When Redis becomes
# unavailable, too, the worker has its share by the number that its node knew.

use lib 't/lib';
use Dsem::Test;

my ($LIMIT, $SHARE) = (4, 2);

my $t = Dsem::Test->new(lease => 4);
my $redis = $t->redis;
my $up = $t->upstream;
my %proxy = map { $_ => $t->proxy($redis->address) } qw(a b);

my %node = map { $_ => $t->node($_, <<'EOF_CONF', REDIS => $proxy{$_}->address) } qw(a b);
worker_processes 1;
dsem_redis_connect_timeout 200ms;
dsem_lease 4s;
location / {
    dsem api limit=4 queue=20 timeout=20s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

# each has seen the other, by the reply to the first one
$redis->all_beat(2) for 1, 2;

sub away {
    $_->refuse, $_->cut for @_;
}

away(values %proxy);
$redis->cmd('FLUSHALL');
my ($old) = $node{a}->workers;
$node{a}->reload;
wait_for { !grep { $_ == $old } $node{a}->draining } 15, 'the end of the old worker';
$proxy{a}->refuse(0);
eventually { $node{a}->grep_log(qr/redis lost its state, recovering/) }
    'only the new worker has come';
away($proxy{a});

my $load = $t->load_start(urls => [ $node{a}->url('/?t=100') ], clients => 8,
    seconds => 60);
wait_for { $up->served > 10 } 15, 'a share to be served';
is $up->peak, $SHARE, 'its share is reached, and kept';

$_->refuse(0) for values %proxy;
$load->stop;
eventually { $t->state->session_count == 2 } 'both are back', 8;
$t->done;
