#!/usr/bin/perl

# A worker sends the changes of several names in one turn, and something goes
# wrong: a name is contended, replies are lost or late while clients leave, the
# scripts or all state are lost, the worker exits. Each name ends with its own
# counts: no permit is lost or granted twice, no ticket is left.

use lib 't/lib';
use Dsem::Clock;
use Dsem::Test;

my $t = Dsem::Test->new(lease => 10);
my $redis = $t->redis;
my $up = $t->upstream;
my $proxy = $t->proxy($redis->address);

my $conf = <<'EOF_CONF';
%%GLOBALS%%
worker_processes 1;
events { multi_accept on; }
http {
    %%HTTP%%
    dsem_redis %%REDIS%%;
    dsem_redis_timeout 10s;
    dsem_node %%NODE%%;
    dsem_reuse off;
    dsem_lease 10s;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / {
            dsem $arg_name limit=4 queue=5 timeout=20s;
            proxy_set_header X-Sem $arg_name;
            proxy_pass http://%%UPSTREAM%%;
        }
    }
}
EOF_CONF

my $clock = Dsem::Clock->new($t, monotonic => 1);
my $node = $clock->node('node', $conf, REDIS => $proxy->address);
my $other = $t->node('other', $conf);
wait_for { $_->grep_log(qr/connected to redis/) } 15, 'sessions open'
    for $node, $other;

sub begin { my ($on, @n) = @_;
    return map { $on->begin("/?name=n$_&hang=1") } @n }

# All that the code causes is one turn of the worker.
sub turn {
    my ($code) = @_;
    my $pid = $node->freeze;
    wait_for {
        open my $stat, '<', "/proc/$pid/stat" or die $!;
        <$stat> =~ /\) T /;
    } 5, 'worker stopped';
    my @got = $code->();
    $node->thaw;
    return @got;
}

sub counts { return join ', ', map { $t->state->counts("n$_") } @_ }

sub finish {
    my (@requests) = @_;
    wait_for { $up->release_all; !grep { !$_->done } @requests } 15, 'the end';
    return grep { $_->status != 200 } @requests;
}

sub nothing_left {
    my ($what) = @_;
    eventually { counts(1 .. 4) !~ /[1-9]/ } "$what: nothing left";
}

# the reply never comes; Redis has executed the command

$proxy->freeze('s2c');
my @asked = turn(sub { begin($node, 1 .. 4) });
eventually { counts(1 .. 4) eq '1 0, 1 0, 1 0, 1 0' } 'reply lost: executed';
is $up->now, 0, 'reply lost: not admitted yet';
$proxy->reset;
$proxy->thaw('s2c');
eventually { $up->now == 4 } 'reply lost: admitted';
eventually { counts(1 .. 4) eq '1 0, 1 0, 1 0, 1 0' } 'reply lost: counts';
is scalar(finish(@asked)), 0, 'reply lost: all served';
nothing_left('reply lost');

# clients leave before the reply: of a name that was granted, and of one that
# waits; another request of both follows. The clock of the worker stands: no
# reply is late yet, so that it asks for more.

my @others = begin($other, 3, 3, 3, 3);
wait_for { $up->now('n3') == 4 } 15, 'limit reached';
$clock->stop;
$proxy->freeze('s2c');
@asked = turn(sub { begin($node, 2, 3, 4) });
wait_for { counts(2, 3, 4) eq '1 0, 4 1, 1 0' } 15, 'executed';
$_->close for @asked[ 0, 1 ];
my @later = begin($node, 2, 3);
eventually { scalar($node->access_log) == 6 } 'late reply: clients gone';
eventually { counts(2, 3) eq '2 0, 4 1' } 'late reply: later ones executed';
$proxy->thaw('s2c');
$clock->go;
eventually { counts(2, 3, 4) eq '1 0, 4 1, 1 0' } 'late reply: counts';
eventually { $up->now('n2') == 1 } 'late reply: the second one served';
is $up->peak('n2'), 1, 'late reply: not the first one';
is scalar(finish($asked[2], @later, @others)), 0, 'late reply: others served';
nothing_left('late reply');

# What a contended name gives back reaches the request that waits. By the poll it
# would take a second; a process that is stopped may be as late.

my ($took, $waits);
for (1 .. 3) {
    @others = begin($other, 3, 3, 3);
    wait_for { $up->now('n3') == 3 } 15, 'three permits out';
    @asked = begin($node, 2, 3);
    wait_for { $up->now('n3') == 4 && $up->now('n2') == 1 } 15,
        'limit reached';
    ($waits) = begin($other, 3);
    wait_for { counts(3) eq '4 1' } 15, 'one waits';
    my $began = now;
    turn(sub { $up->release_nonce($_->nonce) for @asked });
    eventually { counts(2, 3) eq '0 0, 4 0' && $up->now('n3') == 4 }
        'contended: released';
    $took = took($began);
    is scalar(finish(@asked, @others, $waits)), 0, 'contended: all served';
    nothing_left('contended');
    last if $took < 0.7;
}
cmp_ok $took, '<', 0.7, 'contended: at once';

# the scripts are missing, the state is lost

$redis->cmd('SCRIPT', 'FLUSH');
@asked = turn(sub { begin($node, 1 .. 4) });
eventually { $up->now == 4 && counts(1 .. 4) eq '1 0, 1 0, 1 0, 1 0' }
    'no script: all admitted';
$redis->cmd('SCRIPT', 'FLUSH');
turn(sub { $up->release_all });
is scalar(finish(@asked)), 0, 'no script: all served';
# what an older epoch left is dropped when its permits are wanted
@others = begin($other, 1, 1, 1, 1);
eventually { $up->now('n1') == 4 } 'no script: all permits back';
is scalar(finish(@others)), 0, 'no script: all served again';

$redis->cmd('FLUSHALL');
@asked = turn(sub { begin($node, 1 .. 4) });
eventually { $up->now == 4 && counts(1 .. 4) eq '1 0, 1 0, 1 0, 1 0' }
    'state lost: all admitted';
is scalar(finish(@asked)), 0, 'state lost: all served';
nothing_left('state lost');

# the worker exits while its releases are unanswered: one name is contended

@others = begin($other, 3, 3, 3);
@asked = begin($node, 2, 3);
wait_for { $up->now('n3') == 4 && $up->now('n2') == 1 } 15, 'limit reached';
($waits) = begin($other, 3);
wait_for { counts(3) eq '4 1' } 15, 'one waits';
$proxy->freeze('s2c');
turn(sub { $up->release_nonce($_->nonce) for @asked });
wait_for { counts(2) eq '0 0' } 15, 'executed';
$node->quit;
$proxy->thaw('s2c');
eventually { counts(3) eq '4 0' && $up->now('n3') == 4 } 'exit: released';
eventually { !$node->alive } 'exit: worker gone';
is scalar(finish(@asked, @others, $waits)), 0, 'exit: all served';
nothing_left('exit');

is $up->peak('n3'), 4, 'limit reached, never exceeded';

$t->done;
