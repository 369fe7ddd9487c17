#!/usr/bin/perl

# A worker holds permits of many names and has no traffic. It compares its
# counts with Redis for a few names at a time, all of them in turn, whatever
# the lease: no burst, and a bounded number of commands. A lost key is found.

use lib 't/lib';
use Dsem::Test;

my ($NAMES, $PERIOD, $BURST, $RATE) = (32, 0.1, 24, 40);

my $t = Dsem::Test->new(lease => 1);
my $redis = $t->redis;
my $up = $t->upstream;

my $node = $t->node('a', <<'EOF_CONF');
worker_processes 1;
worker_connections 2048;
dsem_lease 1s;
location /held {
    dsem "$arg_name" limit=2 queue=10;
    proxy_read_timeout 10m;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

sub held { return $t->state->held("n$_[0]") }

my @requests = map { $node->begin("/held?name=n$_&hang=1") } 1 .. $NAMES;
wait_for { $up->now == $NAMES } 15, 'a permit of each name';

# until each name was compared: in [ time, name ], by the clock of Redis

my $monitor = $t->client->raw('127.0.0.1', $redis->port);
$monitor->send("MONITOR\r\n")->read_until(qr/OK/);
my ($text, @syncs, %seen) = ('');
my $key = $t->state->semaphore_key('');
eventually {
    $text .= $monitor->read(0);
    $text =~ s/\A(.*\n)//s;
    for (split /\n/, $1 // '') {
        my ($at, $name) = /^\+([\d.]+) .* "EVALSHA" .*"\Q$key\E(n\d+)"/i
            or next;
        push @syncs, [$at, $name];
        $seen{$name}++;
        last if keys %seen == $NAMES;
    }
    keys %seen == $NAMES;
} 'each name compared', 60;
$monitor->close;

my ($most, @last) = (0);
for my $sync (@syncs) {
    push @last, $sync->[0];
    shift @last while $last[0] <= $sync->[0] - $PERIOD;
    $most = @last if @last > $most;
}
my $seconds = $syncs[-1][0] - $syncs[0][0];
cmp_ok $most, '<=', $BURST, 'no burst';
cmp_ok scalar(@syncs), '<=', $RATE * $seconds + $BURST, 'few per second';
is scalar(grep { $_ > 1 } values %seen), 0, 'no name twice';
note sprintf '%d in %.1f s, %d in 0.1 s', scalar @syncs, $seconds, $most;

# those that were compared first are the next ones
my ($next, $later) = map { $syncs[$_][1] =~ s/^n//r } 0, 1;
$t->state->delete_semaphore("n$next");
eventually { held($next) == 1 } 'lost key found', 60;
is held($later), 1, 'others untouched';

$up->release_all;
is scalar(grep { $_->wait->status != 200 } @requests), 0, 'requests served';

$t->done;
