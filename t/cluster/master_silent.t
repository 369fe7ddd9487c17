#!/usr/bin/perl

# The master that has the keys stops to reply, as on a host that is lost, while
# the Cluster still names it. Workers ask other nodes meanwhile, and find its
# successor soon after the promotion: none of their requests is refused, and
# the limit holds. The old master comes back as a replica, and changes nothing.

use lib 't/lib';
use Dsem::Cluster;
use Dsem::Test;

my $LIMIT = 4;

my $t = Dsem::Test->new;
my $cluster = Dsem::Cluster->new($t);
my $up = $t->upstream(service => 0.020);

my @fleet = $t->fleet(2, <<'EOF_CONF');
worker_processes 1;
dsem_redis %%REDIS%% mode=cluster;
dsem_redis_connect_timeout 10s;
dsem_redis_timeout 3s;
location / {
    dsem api limit=4 queue=100 timeout=60s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

my $load = $t->load_start(clients => 12, seconds => 600,
    urls => [ map { $_->url('/') } @fleet ]);
wait_for { $up->served > 100 } 15, 'load';

my ($master, $replica) = ($cluster->owner, $cluster->replica);
$master->freeze;
wait_for { @fleet == grep { $_->grep_log(qr/unavailable \(/) } @fleet } 15,
    'Redis to be unavailable';
$cluster->take_over($replica);
my $promoted = now;
my $address = $replica->address;
my $again = qr/redis \Q$address\E available again after/;
wait_for { @fleet == grep { $_->grep_log($again) } @fleet } 15,
    'all workers to follow';
# a connection to the old one takes longer to fail
cmp_ok took($promoted), '<', 1.5, 'new master found in time';

$master->thaw;
wait_for { !$cluster->owns($master) } 20, 'the old master to be a replica';
$cluster->whole;
Dsem::Redis::all_beat($cluster, 2);
my $served = $up->served;
wait_for { $up->served > $served + 50 } 15, 'load';
my $result = $load->stop->wait;
is_deeply [ keys %{ $result->{statuses} } ], [200], 'none refused'
    or diag explain $result->{statuses};
is $up->peak, $LIMIT, 'limit reached, never exceeded';
is scalar(map { $_->grep_log(qr/unavailable \(/) } @fleet), scalar(@fleet),
    'one line per worker';
is scalar(map { $_->grep_log(qr/available again/) } @fleet), scalar(@fleet),
    'old master not used again';

$t->done;
