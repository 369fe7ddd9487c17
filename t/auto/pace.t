#!/usr/bin/perl

# All workers together send ten samples a second, however many requests there
# are, and none without requests.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Dsem::Test;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $up = $t->upstream;

my @fleet = $t->fleet(2, <<'EOF_CONF');
%%GLOBALS%%
worker_processes 2;
events { }
http {
    %%HTTP%%
    dsem_redis %%REDIS%%;
    dsem_node %%NODE%%;
    server {
        # all workers have requests
        listen 127.0.0.1:%%PORT%% reuseport;
        location /paced {
            dsem api limit=auto max=20 queue=200 timeout=30s;
            proxy_pass http://%%UPSTREAM%%;
        }
    }
}
EOF_CONF

# Samples in so many seconds: each of them sets the expiry of its key anew,
# which other scripts do seldom.
sub samples {
    my ($seconds) = @_;
    my ($begun, $before) = (now, $redis->calls->{pexpire} // 0);
    wait_for { now - $begun >= $seconds } 15, 'some time';
    return (($redis->calls->{pexpire} // 0) - $before) / (now - $begun);
}

my $load = $t->load_start(clients => 40, seconds => 60, keepalive => 1,
    urls => [ map { $_->url('/paced?t=10') } @fleet ]);
wait_for { $up->served > 500 } 15, 'the load';
# until the sessions have been counted
my $begun = now;
wait_for { now - $begun > 3 } 15, 'some time';
my $served = $up->served;
my $rate = samples(3);
cmp_ok $up->served - $served, '>', 100, 'many requests';
cmp_ok $rate, '>', 3, 'samples';
cmp_ok $rate, '<', 20, 'about ten a second';
note sprintf '%.1f a second', $rate;
$load->stop->wait;

$begun = now;
wait_for { now - $begun > 1.5 } 15, 'the last samples';
is samples(2), 0, 'none without requests';

$t->done;
