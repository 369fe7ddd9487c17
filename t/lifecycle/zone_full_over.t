#!/usr/bin/perl

# A worker starts while the zone has no room for its process, as after some
# reloads in a row. When the others have ended it is a worker as any: the API
# shows what it has, and when it is killed its permits return at once, also of a
# name that it has had all the time.

use lib 't/lib';
use Dsem::Test;
use JSON::PP;

# what 64k have room for, see "worker_processes"
my $PROCESSES = 112;

my $t = Dsem::Test->new(lease => 60);
my $redis = $t->redis;
my $up = $t->upstream;

my $conf = <<'EOF_CONF';
worker_processes 112;
worker_connections 64;
dsem_zone_size 64k;
dsem_lease 60s;
location /early {
    dsem early limit=1 queue=10 timeout=60s;
    proxy_pass http://%%UPSTREAM%%;
}
location /late {
    dsem late limit=1 queue=10 timeout=60s;
    proxy_pass http://%%UPSTREAM%%;
}
location /dsem/ { dsem_api; }
EOF_CONF

my $node = $t->node('a', $conf);

sub shown {
    my ($name) = @_;
    my $local = decode_json($node->get("/dsem/semaphores/$name")->body)
        ->{semaphore}{local};
    return join ' ', map { $local->{$_} // 'none' } qw(in_use idle waiting);
}

wait_for { $t->state->session_count == $PROCESSES } 30, 'a full list';
my @old = $node->workers;
$node->freeze($_) for @old;

$node->write_conf($conf =~ s/$PROCESSES/1/r);
$node->signal('HUP');
wait_for { $t->state->session_count == $PROCESSES + 1 } 15,
    'one more, with a session';

my @early = map { $node->begin("/early?hang=$_") } 1, 0;
wait_for { $t->state->waiting('early') == 1 } 15, 'one holds, one waits';

$node->thaw($_) for @old;
wait_for { $node->draining == 0 } 30, 'the end of the others';
wait_for { $t->state->session_count == 1 } 15, 'the end of their sessions';

eventually { shown('early') eq '1 0 1' } 'name of before: shown';
my $late = $node->begin('/late?hang=1');
wait_for { $up->now == 2 } 15, 'both permits in use';
is shown('late'), '1 0 0', 'name of afterwards: shown';

# a beat whose reply has come
$redis->all_beat(1);
$redis->all_beat(1);

$node->kill_worker;
wait_for { $_->done } 15, 'the end of the connections' for @early, $late;
my @next = map { $node->begin("/$_") } qw(early late);
# long before the lease ends
eventually { 2 == grep { $_->done } @next } 'permits returned';
is join(' ', map { $_->status } @next), '200 200', 'requests served';
eventually { $node->grep_log(qr/removed session .* of a dead worker/) == 1 }
    'session removed by successor';

$t->done;
