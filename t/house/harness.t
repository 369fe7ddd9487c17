#!/usr/bin/perl

# The harness itself: what the other tests rely on, shown without the module.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use POSIX ();
use Test::More;

use Dsem::Test;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $up = $t->upstream(service => 0.010);

my $conf = <<'EOF_CONF';
%%GLOBALS%%
worker_processes 2;
events { }
http {
    %%HTTP%%
    server {
        listen 127.0.0.1:%%PORT%%;
        location / {
            proxy_set_header X-Node %%NODE%%;
            proxy_pass http://%%UPSTREAM%%;
        }
        location /weighty {
            proxy_set_header X-Weight 3;
            proxy_set_header X-Sem heavy;
            proxy_pass http://%%UPSTREAM%%;
        }
    }
}
EOF_CONF

my ($node, $other) = $t->fleet(2, $conf);

# a request and the oracle

my $answer = $node->get('/first?t=1', 'X-Nonce' => 'one');
is($answer->status, 200, 'answered');
like($answer->body, qr{^one /first}, 'nonce in the body');
is($answer->header('X-Nonce'), 'one', 'nonce in the head');
is(($up->log)[0]{node}, 'n1', 'node seen');

my @held = map { $node->begin('/?hang=1', 'X-Nonce' => "h$_") } 1 .. 5;
eventually { $up->now == 5 } 'five at once';
ok(!$held[0]->done, 'still in flight');
$held[0]->abort;
$held[1]->close;
eventually { $up->now == 3 && $up->aborted == 2 } 'two aborts seen';
$up->release_nonce('h5');
is($held[4]->wait->status, 200, 'named request released');
$up->release_all;
is($_->wait->status, 200, 'released') for @held[2, 3];
is($up->now, 0, 'none left');
is($up->peak, 5, 'peak remembered');
is_deeply([sort +($up->order)[1 .. 5]], [map { "h$_" } 1 .. 5], 'order');

$node->get('/weighty?t=1');
is($up->peak('heavy'), 3, 'weight counted by name');
is($up->now('heavy'), 0, 'weight returned');

# a request that came before a call of the test, which is read at the same time

my @released;
my $before = $up->connections;
for (1 .. 5) {
    my $raw = $t->client->raw(split /:/, $up->address);
    $up->connections;
    $up->process->signal('STOP');
    $raw->send("GET /?hang=1 HTTP/1.1\r\nHost: a\r\n\r\n");
    my $pid = fork // die "fork: $!";
    if (!$pid) {
        select undef, undef, undef, 0.02;
        $up->process->signal('CONT');
        POSIX::_exit(0);
    }
    push @released, $up->release_all;
    waitpid $pid, 0;
    $raw->close;
}
is("@released", '1 1 1 1 1', 'what came before is released');

# connections that have had no byte yet when they were accepted are read in
# their order, whatever the event loop says

my @first = map { $t->client->raw(split /:/, $up->address) } 1 .. 5;
wait_for { $up->connections == @released + @first + $before } 15, 'accepted';
$up->process->signal('STOP');
$first[$_]->send("GET /?hang=1 HTTP/1.1\r\nX-Nonce: f$_\r\n\r\n") for 0 .. 4;
$up->process->signal('CONT');
wait_for { $up->now == 5 } 15, 'all are read';
is_deeply([($up->order)[-5 .. -1]], [map { "f$_" } 0 .. 4], 'first requests');
$_->close for @first;

# a request that has ended counts no more when the next one begins, though bytes
# of its body have not been read

wait_for { $up->now == 0 } 15, 'none runs';
$up->reset;
my ($ended, $next) = map { $t->client->raw(split /:/, $up->address) } 1, 2;
$ended->send("POST /?hang=1 HTTP/1.1\r\nContent-Length: 9\r\n\r\n");
wait_for { $up->now == 1 } 15, 'it runs';
$up->process->signal('STOP');
$next->send("GET /?hang=1 HTTP/1.1\r\n\r\n");
$ended->send('bytes');
$ended->close;
my $later = $t->client->raw(split /:/, $up->address);
$later->send("GET /?hang=1 HTTP/1.1\r\n\r\n");
$up->process->signal('CONT');
wait_for { $up->now == 2 } 15, 'the next ones run';
is($up->peak, 2, 'one has ended before');
$_->close for $next, $later;

# answers of every shape

is(length $node->get('/?size=1000000')->body, 1_000_000, 'large body');
is($node->get('/?stream=3&every=5&size=7')->body, 'x' x 21, 'streamed body');
is($node->get('/?status=404')->status, 404, 'status on demand');
is($node->get('/?close=1')->status, 502, 'upstream closes');
is($node->get('/?rst=1')->status, 502, 'upstream resets');
is($node->get('/', -method => 'HEAD')->body, '', 'head without a body');
is($node->get('/', -method => 'POST', -body => 'x' x 100_000)->status, 200,
    'body sent');

# load

$up->reset;
my $load = $t->load_start(urls => [$node->url, $other->url],
    clients => 20, requests => 1000, keepalive => 1);
wait_for { $up->peak >= 20 } 15, 'the load to be in flight';
my $result = $load->wait;
is_deeply($result->{statuses}, { 200 => 1000 }, 'all answered');
is($result->{mismatched}, 0, 'each response complete');
is($up->peak, 20, 'the peak is the number of clients');
cmp_ok($up->mean, '>=', 0.010, 'service time kept');
# of the fastest: others use the machine, too
my @took = sort { $a <=> $b } map { took($_->{start}, $_->{end}) } $up->log;
cmp_ok($took[ @took / 20 ], '<', 0.020, 'service time hardly exceeded');

$result = $t->load(urls => [$node->url('/?t=2000')], rate => 200,
    seconds => 0.5, abort => sub { 0.010 });
is_deeply([keys %{ $result->{statuses} }], ['aborted'], 'all aborted');
eventually { $up->now == 0 } 'aborts seen upstream';

# node

my %old = map { $_ => 1 } $node->workers;
is(keys %old, 2, 'two workers');
$node->reload;
is(scalar(grep { $old{$_} } $node->workers), 0, 'workers replaced');
my $killed = $node->kill_worker;
eventually { 2 == grep { $_ != $killed } $node->workers } 'respawned';
ok(scalar($node->grep_log(qr/$killed exited on signal 9/)), 'death logged');
$node->upgrade;
is($node->get('/')->status, 200, 'answers after an upgrade');
$other->kill;
ok(!$other->alive, 'node lost');
$other->start;
my $back = $other->get('/');
is($back->status, 200, 'node available again');
is($other->logged($back)->{status}, 200, 'access log read');

my ($status, $said) = $t->test_conf('events { } nonsense;');
is($status, 1, 'bad configuration refused');
like($said, qr/unknown directive "nonsense"/, 'reason given');

# redis

$redis->cmd('SET', 'key', 'value');
is($redis->cmd('GET', 'key'), 'value', 'redis stores a value');
my $listener = $t->connect;
$listener->cmd('SUBSCRIBE', 'news');
$redis->cmd('PUBLISH', 'news', 'hello');
is_deeply($listener->reply, ['message', 'news', 'hello'], 'message received');
cmp_ok($redis->client_kill, '>=', 1, 'connections killed');
$redis->empty;
is($redis->cmd('GET', 'key'), undef, 'redis forgets');
$redis->freeze;
$redis->thaw;
is($redis->cmd('PING'), 'PONG', 'redis available after a freeze');
cmp_ok($redis->calls->{ping}, '>=', 1, 'commands counted');

# what a test leaves behind is noticed

# Begins a test; run_test(name) has its exit status and output then.
my %begun;

sub begin_test {
    my ($name, $code) = @_;
    my $file = $t->dir . "/harness_$name.t";
    open my $fh, '>', $file or die "$file: $!";
    print $fh <<"EOF_TEST";
use strict;
use warnings;
use Test::More;
use Dsem::Test;
my \$t = Dsem::Test->new(lease => 0.1);
# as in a list of constants, which nothing may change
my (\$redis) = map { \$t->redis } 'the first process';
my \$node = \$t->node('a', <<'EOF_CONF');
%%GLOBALS%%
events { }
http { %%HTTP%% server { listen 127.0.0.1:%%PORT%%; return 200; } }
EOF_CONF
$code
ok(1, 'done');
EOF_TEST
    close $fh;
    open $begun{$name}, "$^X -I$FindBin::Bin/../lib $file 2>&1 |"
        or die "$file: $!";
}

sub run_test {
    my ($name, $code) = @_;
    begin_test($name, $code) if !$begun{$name};
    my $fh = delete $begun{$name};
    my $said = join '', <$fh>;
    close $fh;
    return ($?, $said);
}

my $live = <<'EOF_CODE';
$t->state->enter('a:0:ff', epoch => 2, lease => 5000, lease_end => 1e12);
EOF_CODE

# the sums of a semaphore, and the account of a session: epoch, held, waiting
sub account {
    my ($held, $waiting, $session, @account) = @_;
    my $code = "$live\$t->state->set_figure('x', held => $held);"
        . "\$t->state->set_figure('x', waiting => $waiting);";
    return $code unless $session;
    return "$code\$t->state->set_account('x', '$session', qw(@account));";
}

# code: undef: it has begun
sub notices {
    my ($name, $code, $what, $detail) = @_;
    my ($failed, $text) = run_test($name, $code);
    ok($failed && $text =~ /^not ok \d+ - $what/m && $text =~ $detail,
        "$name noticed") or diag($text);
}

# these wait for what is held, beside the others
begin_test('permit', account(1, 0, 'a:0:ff', 2, 1, 0));
begin_test('ticket', account(0, 1, 'a:0:ff', 2, 0, 1));
begin_test('count', account(2, 0));

is((run_test('clean', $live))[0], 0, 'a clean test passes');
is((run_test('dead', account(1, 0, 'b:0:ff', 1, 1, 0)))[0],
    0, "dead session's account ignored");
is((run_test('between', <<'EOF_CODE'))[0], 0, 'no change by others is lost');
sub ended { $redis->cmd(qw(HSET dsem:{0} .), "2 g 0 0 0 $_[0]") }
ended(5);
$t->state->_head('ended', sub {
    # between the two commands of the test
    ended(7) if $_[0] == 5;
    return $_[0] + 1;
});
is($t->state->shard('ended'), 8, 'both changes');
$t->state->delete_shard;
EOF_CODE
notices('alert', <<'EOF_CODE', 'no alert logged', qr/a: \[alert\] boo/);
open my $log, '>>', $node->dir . '/error.log' or die $!;
print $log "[alert] boo\n";
close $log;
EOF_CODE
notices('exit', <<'EOF_CODE', 'no worker died', qr/exited with code 1/);
open my $log, '>>', $node->dir . '/error.log' or die $!;
print $log "2026/01/01 0:00:00 [notice] 1#1: worker process 2 exited with code 1\n";
close $log;
EOF_CODE
notices('death', <<'EOF_CODE', 'no worker died', qr/exited on signal 6/);
my ($worker) = $node->workers;
kill 'ABRT', $worker;
wait_for { $node->grep_log(qr/exited on signal 6/) };
EOF_CODE

notices('permit', undef, 'no permit', qr/x: a:0:ff: 1 held, 0 waiting/);
notices('ticket', undef, 'no permit', qr/0 held, 1 waiting/);
notices('count', undef, 'no permit',
    qr/2 held, 0 waiting, but 0 and 0 in the accounts/);

# and nothing stays, whatever becomes of the test

my ($failed, $text) = run_test('died', 'print $node->pid, "\n"; die "oops";');
ok($failed && $text =~ /oops/, 'a test that dies fails');
my ($pid) = $text =~ /^(\d+)$/m;
ok(!-e "/proc/$pid", 'its nginx ended');

(undef, $text) = run_test('killed',
    '$| = 1; print $node->pid, " ", $redis->pid, "\n"; kill "KILL", $$;');
my @pids = $text =~ /^(\d+) (\d+)$/m;
is(@pids, 2, 'a test that is killed');
eventually { !grep { running($_) } @pids } 'its processes ended';

sub running {
    my ($of) = @_;
    open my $fh, '<', "/proc/$of/stat" or return 0;
    return <$fh> !~ /\) Z /;
}

done_testing();
