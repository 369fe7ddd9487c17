#!/usr/bin/perl

# The binary is upgraded: two masters have workers for a while, which share no
# memory and keep one limit for each server. What waits in an old worker keeps
# its place and gets a server, and all permits of old workers come back.

use lib 't/lib';
use Dsem::Test;

my @LIMITS = (1, 2);

my $t = Dsem::Test->new;
$t->redis;
my @up = map { $t->upstream } @LIMITS;
my $servers = join ' ', map {
    'server ' . $up[$_]->address . " max_conns=$LIMITS[$_];"
} 0 .. $#up;

my ($node, $other) = $t->fleet(2, <<"EOF_CONF");
worker_processes 1;
upstream gpus {
    zone gpus 64k;
    $servers
    dsem gpus limit=2/server queue=100 timeout=60s;
}
server {
    listen 127.0.0.1:%%PORT%%;
    location / {
        proxy_pass http://gpus;
    }
}
EOF_CONF

sub full { return "@{[ map { $_->now } @up ]}" eq "@LIMITS" }
sub counts { return $t->state->counts('gpus') }

sub came {
    my ($path) = @_;
    return scalar grep { $_->{uri} =~ /^\Q$path\E/ } map { $_->log } @up;
}

# requests run and wait while the old master ends

my @held = map { $node->begin('/?hang=1') } 1 .. 3;
eventually { full() } 'all servers are full';
my $old = $node->begin('/old?hang=1');
eventually { counts() eq '3 1' } 'a request waits';
my $master = $node->pid;
$node->begin_upgrade;
isnt $node->pid, $master, 'new master';
eventually { !$node->workers($master) } 'the old worker takes no more requests';
my $new = $node->begin('/new?hang=1');
eventually { counts() eq '3 2' } 'one waits in the new worker, too';

$up[1]->release(1);
eventually { came('/old') } 'the one in the old worker is first';
is came('/new'), 0, 'the other one waits';
ok full(), 'all servers are full again';
$up[0]->release(1);
eventually { came('/new') } 'it is next';
ok full(), 'all servers are full again';
eventually { counts() eq '3 0' } 'none waits';
$_->release_all for @up;
is scalar(grep { $_->wait->status != 200 } @held, $old, $new), 0,
    'all are served';
$node->end_upgrade;
eventually { counts() eq '0 0' } 'all permits are back';
is join(' ', map { $_->peak } @up), "@LIMITS", 'limits of servers not exceeded';
$_->reset for @up;

# under load

my $load = $t->load_start(urls => [ map { $_->url('/?t=10') } $node, $other ],
    clients => 12, seconds => 600, timeout => 60);

# since the last time
sub limits_held {
    my ($name) = @_;
    eventually {
        2 == grep { $up[$_]->served > 20 && $up[$_]->peak >= $LIMITS[$_] } 0, 1;
    } "$name: all servers are used";
    is join(' ', map { $_->peak } @up), "@LIMITS",
        'limits of servers reached, not exceeded';
    $_->reset for @up;
}

limits_held('before');
$node->upgrade;
limits_held('meanwhile');
limits_held('after');
my $result = $load->stop->wait;
is_deeply [ keys %{ $result->{statuses} } ], [200], 'no request lost'
    or diag explain $result->{statuses};
eventually { !$t->state->exists('gpus') } 'nothing held, none waiting';

$t->done;
