#!/usr/bin/perl

# Requests for several names in one turn of the event loop cost one command to
# Redis, and so do their releases. A name that is contended is left alone by
# it: its request waits in the queue, and the others are served at once.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Dsem::Test;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $up = $t->upstream;

my $conf = <<'EOF_CONF';
%%GLOBALS%%
worker_processes 1;
events { multi_accept on; }
http {
    %%HTTP%%
    dsem_redis %%REDIS%%;
    dsem_node %%NODE%%;
    dsem_reuse off;
    dsem_lease 30s;
    server {
        listen 127.0.0.1:%%PORT%%;
        proxy_set_header X-Sem $arg_name;
        location /literal {
            dsem n1 limit=4 queue=5;
            proxy_pass http://%%UPSTREAM%%;
        }
        location / {
            dsem $arg_name limit=4 queue=5;
            proxy_pass http://%%UPSTREAM%%;
        }
    }
}
EOF_CONF

my ($node, $other) = map { $t->node($_, $conf) } qw(node other);
wait_for { $t->state->session_count == 2 } 15, 'sessions open';

# The code runs while the worker is stopped: all that it causes is one turn.
# Returns keys and first name of each sync, until the condition is true, without
# those that only check, as they do each second, what waits.
sub turn {
    my ($code, $condition) = @_;
    my $monitor = $t->client->raw('127.0.0.1', $redis->port);
    $monitor->send("MONITOR\r\n")->read_until(qr/OK/);
    my $pid = $node->freeze;
    wait_for {
        open my $stat, '<', "/proc/$pid/stat" or die $!;
        <$stat> =~ /\) T /;
    } 5, 'worker stopped';
    $code->();
    $node->thaw;
    wait_for { $condition->() } 15, 'end of the turn';
    $redis->cmd('ECHO', 'end of turn');
    my $key = $t->state->semaphore_key('');
    my $check = qr/ "[^"]+" "[^"]+" "(?:\d+ ){5}0 0 0 /;
    my @seen = $monitor->read_until(qr/end of turn/)
        =~ /\[\d+ [^l]\S+\] "EVALSHA" "\w+" "(\d+)" "[^"]+" "\Q$key\E(\w+)"(?!$check)/g;
    $monitor->close;
    return join ', ', map { "$seen[2 * $_] $seen[2 * $_ + 1]" }
        0 .. @seen / 2 - 1;
}

sub held { return join ' ', map { $t->state->held("n$_") } @_ }

# literal limits, and those of other names

my @asked;
# the kernel may tell of them in any order
like turn(sub {
    @asked = map { $node->begin($_ == 1 ? '/literal?hang=1'
        : "/?name=n$_&hang=1") } 1 .. 8;
}, sub { $up->now == 8 }), qr/^17 n\d$/, 'eight names, one command';
is held(1 .. 8), '1 1 1 1 1 1 1 1', 'a permit of each';
like turn(sub { $up->release_all }, sub {
    !grep { !$_->done } @asked and held(1 .. 8) !~ /1/ }),
    qr/^17 n\d$/, 'eight releases, one command';
is $_->status, 200, 'request served' for @asked;
wait_for { $node->access_log == 8 } 15, 'eight lines';
is_deeply [ map { $_->{dsem_status} } $node->access_log ], [ ('PASSED') x 8 ],
    'each passed';
is_deeply [ map { "$_->{dsem_in_use} $_->{dsem_limit}" } $node->access_log ],
    [ ('1 4') x 8 ], 'figures of each name';

# two requests of a name are one part; one name alone is an ordinary sync

like turn(sub {
    @asked = map { $node->begin("/?name=n$_&hang=1") } 2, 3, 2;
}, sub { $up->now == 3 }), qr/^5 n[23]$/, 'two of a name together';
is held(2, 3), '2 1', 'both counted';
is turn(sub { push @asked, $node->begin("/?name=n4&hang=1") },
    sub { $up->now == 4 }), '3 n4', 'one name, a sync';
$up->release_all;
is $_->wait->status, 200, 'request served' for @asked;
wait_for { held(2 .. 4) eq '0 0 0' } 15, 'all released';

# more names than fit into one command

my @turns = turn(sub {
    @asked = map { $node->begin("/?name=n$_&hang=1") } 1 .. 18;
}, sub { $up->now == 18 });
like "@turns", qr/^33 n\d+, 5 n\d+$/, 'sixteen names and two';
$up->release_all;
is scalar(grep { $_->wait->status == 200 } @asked), 18, 'all served';
wait_for { held(1 .. 18) !~ /1/ } 15, 'all released';

# another node has all permits of two names

my @others = map { $other->begin("/?name=n$_&hang=1") } (3, 5) x 4;
wait_for { $up->now('n3') == 4 && $up->now('n5') == 4 } 15, 'limits reached';
$node->clear_logs;
like join(', ', sort { $b cmp $a } split /, /, turn(sub {
    @asked = map { $node->begin("/?name=n$_&hang=1") } 2, 3, 4, 3, 5;
}, sub { $up->now == 10 && $t->state->waiting('n3') == 2
    && $t->state->waiting('n5') == 1 })), qr/^9 n[2-5], 3 n5, 3 n3$/,
    'contended names: a sync of their own';
is held(2, 3, 4), '1 4 1', 'others have their permits';
is_deeply [ map { (split)[2] } $t->state->queue('n3') ],
    [ sort { $a <=> $b } map { (split)[2] } $t->state->queue('n3') ],
    'queued in their order';
wait_for { $up->release_all; !grep { !$_->done } @asked, @others } 15,
    'all served';
is $_->status, 200, 'request served' for @asked, @others;
is_deeply [ sort map { "$_->{dsem_name} $_->{dsem_status}" }
    map { $node->logged($_) } @asked ],
    [ 'n2 PASSED', 'n3 QUEUED', 'n3 QUEUED', 'n4 PASSED', 'n5 QUEUED' ],
    'queued and passed';
is_deeply [ map { $node->logged($_)->{dsem_queue_position} } @asked[ 1, 3 ] ],
    [ 1, 2 ], 'positions in their order';

is $up->peak("n$_"), 4, "limit of n$_ reached, never exceeded" for 3, 5;
eventually { held(1 .. 18) !~ /[1-9]/ } 'nothing left';

$t->done;
