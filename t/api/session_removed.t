#!/usr/bin/perl

# A session that a worker is using is removed by force: by another worker, and
# by itself. The worker comes back with a new name by itself and goes on, its
# running request is counted again. Without force it stays, unless it is not
# heard from.

use JSON::PP qw(decode_json);
use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new(lease => 4);
my $redis = $t->redis;
my $up = $t->upstream;

my ($one, $two) = $t->fleet(2, <<'EOF_CONF');
worker_processes 1;
# two heartbeats: 1.6 s without any are a lost node
dsem_lease 4s;
server {
    listen 127.0.0.1:%%PORT%%;
    location /reports {
        dsem reports limit=2 queue=10;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /dsem/ {
        dsem_api write=on;
    }
}
EOF_CONF

sub session_of {
    my ($node) = @_;
    my $name = $node->name;
    my ($session) = grep { /^\Q$name\E:/ } $t->state->sessions;
    return $session // '';
}

sub remove {
    my ($node, $session, $body) = @_;
    my $asked = $node->get("/dsem/sessions/$session", -method => 'DELETE',
        'Content-Type' => 'application/json', -body => $body // '');
    return ($asked->status, decode_json($asked->body));
}

my $running = $one->begin('/reports?hang=1');
wait_for { $up->now == 1 } 15, 'request running';
my $first = session_of($one);
wait_for { $two->get('/dsem/health')->status == 200 } 15, 'both connected';

my ($status, $answer) = remove($two, $first);
is $status, 409, 'session that is heard from stays';
like $answer->{error}, qr/heard from/, 'reason told';
is session_of($one), $first, 'same session';

($status, $answer) = remove($two, 'n9:0:0123456789abcdef');
is $status, 404, 'unknown session';
($status) = remove($two, 'order:reports');
cmp_ok $status, '>=', 400, 'no session at all';

for ([ $two, 'by another node' ], [ $one, 'by itself' ]) {
    my ($by, $test) = @$_;
    my $before = session_of($one);
    ($status, $answer) = remove($by, $before, '{"force": true}');
    is $status, 200, "removed $test";
    is_deeply $answer, { session => $before, removed => JSON::PP::true },
        "$test: answer";
    eventually { my $name = session_of($one); $name && $name ne $before }
        "$test: back with a new name";
    eventually { $t->state->held('reports') == 1 }
        "$test: running request counted";
    is $one->get('/reports')->status, 200, "$test: worker goes on";
    is $t->state->session_count, 2, "$test: as many sessions";
}

# a request that waits, and was asked for in a later epoch than that in which
# the new session begins, keeps its place

sub epoch_of { $t->state->epochs->{ session_of($_[0]) } // 0 }

for (1, 2) {
    my $epoch = epoch_of($one);
    $redis->client_kill;
    wait_for { epoch_of($one) > $epoch } 15, 'the next epoch';
}
my $full = $two->begin('/reports?hang=1');
wait_for { $up->now == 2 } 15, 'limit reached';
my $waits = $one->begin('/reports');
eventually { $t->state->waiting('reports') == 1 } 'a request waits';
my $before = session_of($one);
remove($two, $before, '{"force": true}');
eventually {
    my $name = session_of($one);
    $name && $name ne $before && $t->state->counts('reports') eq '2 1';
} 'back, the request still waits';
is scalar($one->grep_log(qr/ERR DSEM/)), 0, 'nothing was in its way';
$up->release;
is $waits->wait->status, 200, 'request that waited is served';
$up->release;
wait_for { $up->now == 0 } 15, 'none running';
$_->wait for $running, $full;
$running = $one->begin('/reports?hang=1');
wait_for { $up->now == 1 } 15, 'request running';

# the session of a node that is gone, before its lease ends: its permit is free

sub reclaimed {
    my $seen = decode_json($one->get('/dsem/semaphores/reports')->body);
    return $seen->{semaphore}{local}{reclaimed};
}

my $lost = $two->begin('/reports?hang=1');
wait_for { $up->now == 2 } 15, 'permit of the other node';
my $gone = session_of($two);
my $reclaimed = reclaimed();
$two->kill;
eventually { (remove($one, $gone))[0] == 200 } 'removed when not heard from';
is $one->get('/reports')->status, 200, 'its permit is free';
eventually { reclaimed() == $reclaimed + 1 } 'counted as reclaimed';

$up->release_all;
is $running->wait->status, 200, 'running request served';

$t->done;
