#!/usr/bin/perl

# The lease of a worker ends while its requests run, and its permits are granted
# to others. It comes back, and the connection is lost again: before the reply
# to its first command has come, that to its declaration, or that to the end of
# all of them. With the next connection its session is there already, and the
# overage is logged still, once.

use lib 't/lib';
use Dsem::Clock;
use Dsem::Test;

my $LEASE = 10;

my $t = Dsem::Test->new(lease => $LEASE);
my $redis = $t->redis;
my $state = $t->state;
my $up = $t->upstream;
my $proxy = $t->proxy($redis->address);
my $clock = Dsem::Clock->new($t, monotonic => 1);

my $conf = <<'EOF_CONF';
worker_processes 1;
dsem_redis_timeout 1m;
dsem_lease 10s;
server {
    listen 127.0.0.1:%%PORT%%;
    location / {
        dsem $arg_name limit=2;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /turn {
        return 204;
    }
}
EOF_CONF
my $cut = $clock->node('cut', $conf, REDIS => $proxy->address);
my $other = $t->node('other', $conf);

sub entry {
    my ($field) = @_;
    my ($session) = grep { /^cut:/ } $state->sessions or return 0;
    return $state->entry($session)->{$field} // 0;
}

sub epoch { entry('epoch') }
sub declared { entry('declared') }

sub lost_again {
    my ($name, $held, $executed) = @_;
    wait_for { $state->session_count == 2 } 30, 'all sessions';
    my @own = map { $cut->begin("/?hang=1&name=$name") } 1, 2;
    wait_for { $up->now == 2 } 15, "$name: all permits at the worker";

    $proxy->refuse;
    $proxy->cut;
    $state->lapse(grep { /^cut:/ } $state->sessions);
    $clock->step($LEASE + 1);
    wait_for { $state->session_count == 1 } 30, "$name: its session ended";
    # the clock of Redis has not stood still: there is no pause
    $state->advance(0.7 * $LEASE * 1000);
    my @more = map { $other->begin("/?hang=1&name=$name") } 1, 2;
    wait_for { $up->now == 4 } 15, "$name: permits granted to the other one";

    $proxy->hold($held);
    $proxy->refuse(0);
    eventually { $executed->($name) } "$name: executed";
    if ($name eq 'declared') {
        eventually { $cut->grep_log(qr/overage of .*"$name"/) }
            "$name: logged before";
    } else {
        # what the proxy has passed the worker has read
        $redis->written;
        $proxy->bytes for 1, 2;
        $cut->get('/turn');
        is scalar($cut->grep_log(qr/overage of .*"$name"/)), 0,
            "$name: not logged yet";
    }
    my ($epoch) = epoch();
    $proxy->cut;
    $proxy->thaw;
    eventually { epoch() > $epoch && declared() == epoch() }
        "$name: declared again";
    eventually { $cut->grep_log(qr/overage of 2 permits of "$name" \(the le/) }
        "$name: overage logged";
    $up->release_all;
    is $_->wait->status, 200, "$name: request served" for @own, @more;
}

# elements of the replies to hello and to a declaration without tickets
lost_again('hello', '\*13\r\n\$\d+\r\ncut:',
    sub { $state->session_count == 2 });
lost_again('declare', '\*5\r\n\$\d+\r\ncut:',
    sub { $state->held($_[0]) == 4 });
# with a fifth element that is 0
lost_again('declared', '\*5\r\n\$\d+\r\ncut:[^\r]*\r\n(?::\d+\r\n){2}(?::0\r\n){2}',
    sub { declared() == epoch() });
is scalar($cut->grep_log(qr/overage/)), 3, 'each logged once';

$t->done;
