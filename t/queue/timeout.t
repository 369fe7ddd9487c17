#!/usr/bin/perl

# A request waits for its timeout: it is rejected within 100 ms of the timeout,
# and its ticket is removed. Other requests keep waiting.

use warnings;
use strict;

use Test::More;

use FindBin;
use List::Util qw(max);
use lib "$FindBin::Bin/../lib";

use Dsem::Test;

my $t = Dsem::Test->new;
$t->redis;
my $up = $t->upstream;

my $node = $t->node('n1', <<'EOF_CONF');
add_header X-Dsem $dsem_status always;
location /impatient {
    dsem one limit=1 queue=10 timeout=400ms;
    proxy_pass http://%%UPSTREAM%%;
}
location /patient {
    dsem one limit=1 queue=10 timeout=30s;
    proxy_pass http://%%UPSTREAM%%;
}
location /default { # 5 s
    dsem one limit=1 queue=10;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

my $holder = $node->begin('/patient?hang=1');
eventually { $up->now == 1 } 'limit reached';

my $patient = $node->begin('/patient', 'X-Nonce' => 'patient');
eventually { waiting() == 1 } 'one request queued';

# a round in which the machine had nothing else to do
my ($told, $logged, $left);
for (1 .. 5) {
    ($told, $logged, $left) = in_vain();
    last if $told < 0.5 && $logged < 0.5 && $left < 0.5;
}
cmp_ok($told, '<', 0.5, 'rejected within 100 ms');
cmp_ok($logged, '<', 0.5, 'logged wait within 100 ms');
cmp_ok($left, '<', 0.5, 'tickets removed at once');
is($up->started, 1, 'no rejected request at backend');

if ($ENV{DSEM_LONG}) {
    my $default = $node->get('/default');
    is($default->header('X-Dsem'), 'TIMEOUT', 'default timeout applied');
    cmp_ok($default->latency, '>', 4.99, 'default is five seconds');
    cmp_ok($default->took, '<', 6, 'and not more');
}

ok(!$patient->done, 'other requests still queued');
$up->release_all;
is($patient->wait->header('X-Dsem'), 'QUEUED', 'other requests served');
is($holder->wait->status, 200, 'holder served');
is($up->peak, 1, 'one at a time');

done_testing();

# The longest of three waits, as the clients and the log have it, and the time
# until their tickets are gone.
sub in_vain {
    $node->clear_logs;
    my @impatient = map { $node->begin('/impatient') } 1 .. 3;
    my ($told, $logged, @position) = (0, 0);
    for my $refused (@impatient) {
        is($refused->wait->status, 503, 'request rejected');
        is($refused->header('X-Dsem'), 'TIMEOUT', 'status in header');
        cmp_ok($refused->latency, '>=', 0.395, 'rejected not too early');
        my $line = $node->logged($refused);
        is($line->{dsem_status}, 'TIMEOUT', 'status in access log');
        is($line->{dsem_name}, 'one', 'name in access log');
        cmp_ok($line->{dsem_wait_time}, '>=', 0.4, 'wait in access log');
        push @position, $line->{dsem_queue_position};
        $told = max($told, $refused->took);
        $logged = max($logged, $line->{dsem_wait_time}
            - ($refused->latency - $refused->took));
    }
    is_deeply([sort @position], [2 .. 4], 'three more queued');
    my $refused = now;
    eventually { waiting() == 1 } 'tickets removed';
    my $left = took($refused);
    my @lines = $node->grep_log(qr/dsem timeout/);
    is(scalar @lines, 3, 'one line each');
    like($lines[0], qr/\[error\].* dsem\ timeout:\ no\ permit\ of\ semaphore
        \ "one"\ within\ (?:[4-9]\d\d|\d{4,})\ ms
        ,\ 1\ of\ 1\ in\ use\ when\ queued,\ client:/x, 'timeout logged');
    return ($told, $logged, $left);
}

sub waiting { $t->state->waiting('one') }
