#!/usr/bin/perl

# A reload raises dsem_lease while old workers drain. After a standstill of
# Redis a new worker comes first: its heartbeat, for which 60 seconds are a part
# of a lease, does not end the lease of the old worker, whose requests run.

use lib 't/lib';
use Dsem::Clock;
use Dsem::Test;

my $t = Dsem::Test->new;
my $clock = Dsem::Clock->new($t);
my $redis = $clock->redis;
my $up = $t->upstream;
my $proxy = $t->proxy($redis->address);

my $node = $t->node('a', conf('%%OLD%%', '40s'), OLD => $proxy->address);

sub conf {
    my ($address, $lease) = @_;
    return <<"EOF_CONF";
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    dsem_redis $address;
    dsem_lease $lease;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / {
            dsem api limit=2 queue=10 timeout=60s;
            proxy_pass http://%%UPSTREAM%%;
        }
    }
}
EOF_CONF
}

my @old = map { $node->begin('/?hang=1') } 1, 2;
wait_for { $up->now == 2 } 15, 'both permits of the old worker';
$node->reload(conf('%%REDIS%%', '8m'));
my @new = map { $node->begin('/?hang=1') } 1, 2;
wait_for { $t->state->waiting('api') == 2 } 15, 'requests of the new worker';

$proxy->freeze('both');
$clock->step(60);
$redis->beats(2, 'the new worker comes first');
is scalar($node->draining), 1, 'old worker drains';
is $t->state->session_count, 2, 'its lease goes on';
is $up->now, 2, 'its permits are not granted again';
$proxy->thaw;
$redis->beats(2, 'both workers');

$up->release_nonce($_->nonce) for @old;
is $_->wait->status, 200, 'old requests served' for @old;
eventually { $up->started == 4 } 'permits handed over';
$up->release_all;
is $_->wait->status, 200, 'new requests served' for @new;
is $up->peak, 2, 'limit reached, never exceeded';
is_deeply [ $node->grep_log(qr/lease of \d+ sessions expired|overage/) ], [],
    'no lease ended';

$t->done;
