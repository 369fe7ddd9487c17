#!/usr/bin/perl

# More error replies (error_replies.t has the common ones): Redis cannot save,
# or rejects commands of the module or of its scripts. Nothing is granted, no
# request keeps waiting, and the log names each cause once. When the cause is
# gone, service continues.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new(lease => 1);
my $up = $t->upstream;

my $conf = <<'EOF_CONF';
worker_processes 1;
dsem_redis_connect_timeout 300ms;
dsem_redis_timeout 1500ms;
dsem_lease 1s;
dsem_status 503 error=500;
location /reject {
    dsem api limit=2 queue=10 timeout=10s;
    dsem_on_error reject;
    proxy_pass http://%%UPSTREAM%%;
}
location /pass {
    dsem other limit=2 queue=10 timeout=10s;
    dsem_on_error pass;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

my $redis = $t->redis(args => [qw(--enable-protected-configs yes)]);
my $node = $t->node('single', $conf);
my ($dir) = $redis->cmd(qw(CONFIG GET dir))->[1];

sub state { return $t->state->figure('api', $_[0]) }

# error: the reply of Redis
sub answered {
    my ($name, $error, $cause, $cure) = @_;
    my @running = map { $node->begin('/reject?hang=1') } 1, 2;
    wait_for { $up->now == 2 } 15, 'all permits out';
    my $waiting = $node->begin('/reject?hang=1');
    wait_for { state('waiting') == 1 } 15, 'one request queued';
    # an idle permit would serve requests without Redis
    wait_for { !($t->state->figure('other', 'held') // 0) } 15, 'none idle';
    $node->clear_logs;

    $cause->();
    # a heartbeat may get the first error
    is $waiting->wait->status, 500, "$name: waiting request refused";
    my $began = now;
    my ($longest, %status) = 0;
    while (now < $began + 0.25) {
        my $asked = $node->get('/reject');
        $status{ $asked->status }++;
        $longest = $asked->took if $asked->took > $longest;
        $status{ $node->get('/pass?t=1')->status }++;
    }
    is_deeply [ sort keys %status ], [ 200, 500 ], "$name: refused or passed";
    cmp_ok $longest, '<', 0.5 + 1.5, "$name: all in time";
    is $up->now, 2, "$name: running requests kept";
    is scalar($node->grep_log(
        qr/\[error\].*dsem: .*unavailable \(.*$error/)), 1,
        "$name: unavailable once, with the cause";
    is scalar($node->grep_log(qr/\[(?:warn|error)\].*dsem: /)), 1,
        "$name: no other error";
    is scalar($node->grep_log(qr/\[notice\].*available again/)), 0,
        "$name: not available too early";

    $cure->();
    eventually { $node->grep_log(qr/\[notice\].*available again/) == 1 }
        "$name: available again", 3;
    eventually { state('held') == 2 } "$name: permits still held";
    is $node->get('/pass?t=1')->status, 200, "$name: request served again";
    $up->release_all;
    is $_->wait->status, 200, "$name: running requests served" for @running;
    my %said = map { $_->{dsem_status} => 1 } $node->access_log;
    ok $said{DEGRADED} && $said{ERROR}, "$name: statuses logged"
        or diag explain [ map { "$_->{request_uri} $_->{dsem_status}" }
            $node->access_log ];
}

sub acl { $redis->cmd(qw(ACL SETUSER), $redis->user, @_) }

answered('misconf', 'MISCONF', sub {
        $redis->cmd(qw(CONFIG SET dir /proc), 'save', '3600 1000000');
        $redis->cmd('BGSAVE');
        wait_for { $redis->cmd(qw(INFO persistence))
            =~ /last_bgsave_status:err/ } 15, 'a failure';
    },
    sub {
        $redis->cmd(qw(CONFIG SET dir), $dir);
        $redis->cmd('BGSAVE');
    });
answered('no script load', 'NOPERM',
    sub { acl('-script'); $redis->client_kill }, sub { acl('+script') });
answered('no key', 'NOPERM',
    sub { acl('resetkeys', '~' . $t->state->key . '*s', '~' . $t->state->key) },
    sub { acl('allkeys') });
answered('no command', q((?:can't run|NOPERM|ACL failure)),
    sub { acl('-zadd') }, sub { acl('+zadd') });

# without messages grants come later; the log must name the cause

my @running = map { $node->begin('/reject?hang=1') } 1, 2;
wait_for { $up->now == 2 } 15, 'all permits out';
$node->clear_logs;
acl('resetchannels');
eventually { $node->grep_log(qr/\[error\].*dsem: .*SUBSCRIBE/) == 1 }
    'no channel: cause logged';
my $clock = $t->state->shard('clock');
wait_for { $t->state->shard('clock') > $clock + 500 } 15, 'some heartbeats';
my $waiting = $node->begin('/reject?t=1');
wait_for { state('waiting') == 1 } 15, 'one request queued';
$up->release(1);
is $waiting->wait->status, 200, 'no channel: waiting request served';
is scalar($node->grep_log(qr/unavailable \(/)), 0,
    'no channel: redis stays available';
is scalar($node->grep_log(qr/\[(?:error|warn)\]/)), 2,
    'no channel: causes logged once';
is scalar($node->grep_log(qr/\[error\].*dsem: .*PUBLISH/)), 1,
    'no channel: both causes logged';
acl('allchannels');
$up->release_all;
is $_->wait->status, 200, 'no channel: running requests served' for @running;

$t->done;
