#!/usr/bin/perl

# A user of "db=" loses SELECT while workers run, and the connection of the
# messages is lost: the log names that command, not SUBSCRIBE, which was not sent.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new(lease => 1);
my $redis = $t->redis;
my @user = qw(ACL SETUSER lacking);
$redis->cmd(@user, qw(on >word allkeys allchannels +@all));

my $node = $t->node('a', <<'EOF_CONF',
worker_processes 1;
dsem_lease 1s;
location / {
    dsem api limit=2 queue=10;
    return 204;
}
EOF_CONF
    REDIS => $redis->address . ' user=lacking password=word db=1');
wait_for { $redis->cmd(qw(PUBSUB CHANNELS))->[0] } 15, 'subscribed';

$redis->cmd(@user, '-select');
$redis->cmd(qw(CLIENT KILL TYPE pubsub));
eventually { $node->grep_log(qr/sends no messages \(NOPERM .*'select'/) }
    'its cause';
is scalar($node->grep_log(qr/SUBSCRIBE/)), 0, 'no other one';
is $node->get('/')->status, 204, 'served';

$t->done;
