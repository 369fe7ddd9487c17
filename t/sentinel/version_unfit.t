#!/usr/bin/perl

# Scripts of Redis 6.2.6 ignore "min-replicas-to-write": a master that is cut
# off from its replicas would grant permits for ever. A node that uses Sentinel
# names it once at start, one with this server alone does not.

use lib 't/lib';
use Dsem::Test;

# Valkey has its own number
plan skip_all => 'no old Valkey'
    if ($ENV{DSEM_REDIS_SERVER} // '') =~ /valkey/;

my $t = Dsem::Test->new;
my $set = $t->sentinel(servers => 1, sentinels => 0);
my $master = $set->master;
my $proxy = $t->proxy($master->address);
my ($version) = $master->cmd(qw(INFO server)) =~ /redis_version:(\S+)/;
# as many bytes
my $old = '6.2.' . '0' x (length($version) - 5) . '6';
$proxy->rewrite('redis_version:\K\d+\.\d+\.\d+', $old);

my $conf = <<'EOF_CONF';
worker_processes 2;
dsem_redis %%PEER%%;
location / {
    dsem api limit=1;
    return 204;
}
EOF_CONF

sub said {
    my ($name, $peer) = @_;
    my $node = $t->node($name, $conf, PEER => $peer);
    eventually { $node->grep_log(qr/\[notice\].*connected to redis/) == 2 }
        "$name: connected";
    $master->client_kill;
    eventually { 2 == grep { $_ >= 2 } Dsem::State->new($master)->declared }
        "$name: both workers are back";
    my @lines = map { /\[(\w+)\] .*dsem: redis \S+ (is too old .*)/
        ? "$1: $2" : () } $node->grep_log(qr/dsem: redis /);
    $node->stop;
    return \@lines;
}

my $guide = $set->watch('mine', $proxy->address)->address;
is_deeply said('sentinel', "$guide mode=sentinel master=mine"),
    ["warn: is too old (Redis $old), its scripts ignore "
        . 'min-replicas-to-write before version 6.2.7'], 'named once';
is_deeply said('single', $proxy->address), [], 'no matter with one server';
$proxy->rewrite('redis_version:\K\d+\.\d+\.\d+', $old =~ s/6$/7/r);
is_deeply said('fixed', "$guide mode=sentinel master=mine"), [],
    'nothing of the version that obeys';

$t->done;
