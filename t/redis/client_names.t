#!/usr/bin/perl

# CLIENT LIST names both connections of a worker, after its node and its
# number. Where CLIENT is denied or unknown, they have no name, and service is
# the same.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $up = $t->upstream;

my $conf = <<'EOF_CONF';
worker_processes 2;
location / {
    dsem api limit=1 queue=10;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

sub names {
    return join ' ', sort grep { /^dsem/ }
        $redis->cmd(qw(CLIENT LIST)) =~ /\bname=(\S+)/g;
}

sub subscribers {
    return $t->state->subscribed;
}

my $node = $t->node('edge-1', $conf);
eventually { names() eq 'dsem-edge-1-0 dsem-edge-1-0-messages '
    . 'dsem-edge-1-1 dsem-edge-1-1-messages' } 'both connections named';
$redis->client_kill;
eventually { names() =~ /1-messages$/ && names() =~ /^dsem-edge-1-0 / }
    'named again after a loss';
$node->quit;

$redis->cmd(qw(ACL SETUSER), $redis->user, '-client');
my $denied = $t->node('denied', $conf);
eventually { subscribers() == 2 } 'denied: subscribed';
is $denied->get('/?t=1')->status, 200, 'denied: request served';
is scalar($denied->grep_log(qr/\[(?:warn|error)\]/)), 0, 'denied: no error';
is scalar($denied->grep_log(qr/lost \(/)), 0, 'denied: connection kept';
$redis->cmd(qw(ACL SETUSER), $redis->user, '+client');
is names(), '', 'denied: no name';

$t->done;
