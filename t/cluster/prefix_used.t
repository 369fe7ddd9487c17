#!/usr/bin/perl

# A prefix is used by nodes with "mode=cluster", or by nodes without it, never by
# both: each would have a limit of its own. The second node is refused, whichever
# it is, also where INFO is denied, and its log names the first one. A node
# without that mode is refused by any server of a Cluster that tells it is one.

use lib 't/lib';
use Dsem::Cluster;
use Dsem::Test;

my $t = Dsem::Test->new(lease => 1);
my $redis = $t->redis;
my $cluster = Dsem::Cluster->new($t, replicas => 0, name => 'one');
my $up = $t->upstream;

my $conf = <<'EOF_CONF';
worker_processes 1;
dsem_redis %%AT%%;
dsem_lease 1s;
dsem_on_error reject;
dsem_prefix %%PREFIX%%;
location / {
    dsem "$arg_n" limit=2;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

# one name in each shard
my @NAMES = qw(one c d a);

sub node {
    my ($name, $at, $prefix) = @_;
    return $t->node($name, $conf, AT => $at, PREFIX => $prefix);
}

sub statuses {
    my ($node) = @_;
    return join ' ', map { $node->get("/?t=1&n=$_")->status } @NAMES;
}

sub refused {
    my ($node, $cause) = @_;
    my $name = $node->name;
    eventually { $node->grep_log(qr/\[error\].*unavailable \(\Q$cause\E\)/) }
        "$name: cause logged";
    is statuses($node), '503 503 503 503', "$name: nothing passes";
}

my $single = $redis->address;
my $one = node('plain', $single, 'x');
is statuses($one), '200 200 200 200', 'plain: first';
my $two = node('shards', "$single mode=cluster", 'x');
refused($two, 'WRONGMODE node plain uses this prefix without '
    . '"mode=cluster", this node with it');
is statuses($one), '200 200 200 200', 'plain: served as before';
$one->quit;
eventually { statuses($two) eq '200 200 200 200' } 'shards: alone now';
$redis->cmd(qw(ACL SETUSER), $redis->user, '-info');
refused(node('late', $single, 'x'), 'WRONGMODE node shards uses this prefix '
    . 'with "mode=cluster", this node without it');

my $owner = $cluster->owner;
refused(node('alone', $owner->address, 'y'),
    'WRONGMODE a Cluster needs "mode=cluster"');
$redis->cmd(qw(ACL SETUSER), $redis->user, '+info');

$t->done;
