#!/usr/bin/perl

# A client that leaves while its request waits cancels its ticket at once,
# whatever the kind of close. Later tickets move up. The clock of the workers
# stands, so that no check removes a ticket.

use lib 't/lib';
use Dsem::Clock;
use Dsem::Test;

my $t = Dsem::Test->new;
my $clock = Dsem::Clock->new($t, monotonic => 1);
$t->redis;
my $up = $t->upstream;

my ($one, $two) = $clock->fleet(2, <<'EOF_CONF');
worker_connections 1024;
dsem_lease 10m;
location /waits {
    dsem waits limit=1 queue=500 timeout=60s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

wait_for { $t->state->subscribed == 2 } 15, 'sessions';
$clock->stop;

my $holder = $one->begin('/waits?hang=1', 'X-Nonce' => 'holder');
eventually { $up->now == 1 } 'limit reached';

# each kind of close, with a ticket before and a ticket behind

my @ways = (
    [FIN => sub { $_[0]->close }],
    [RST => sub { $_[0]->abort }],
    ['half close' => sub { $_[0]->raw->shutdown }],
);
for my $way (@ways) {
    my ($name, $leave) = @$way;
    for my $node ($one, $two) {
        my $leaver = $node->begin('/waits');
        wait_for { waiting() == 1 };
        my $behind = $one->begin('/waits');
        wait_for { waiting() == 2 };
        $leave->($leaver);
        eventually { waiting() == 1 } "ticket gone after $name";
        $behind->close;
        eventually { waiting() == 0 } "other ticket removed";
        is($node->logged($leaver)->{status}, 499, 'logged as 499');
    }
}

# closed before the reply can arrive

for my $i (1 .. 200) {
    my $leaver = ($one, $two)[ $i % 2 ]->begin('/waits');
    $i % 3 ? $leaver->close : $leaver->abort;
}
my $last = $two->begin('/waits', 'X-Nonce' => 'last');
eventually { $one->access_log + $two->access_log == 12 + 200 }
    'all 200 requests ended';
eventually { waiting() == 1 } 'all tickets removed';

$up->release_all;
is($holder->wait->status, 200, 'holder served');
is($last->wait->status, 200, 'last request served');
is_deeply([$up->order], [qw(holder last)], 'no aborted request at backend');
is($up->peak, 1, 'one at a time');

$clock->go;

done_testing();

sub waiting { $t->state->waiting('waits') }
