#!/usr/bin/perl

# "dsem_retry_after auto" tells how long it will take until all who wait have
# been served, as far as can be seen: so many in front, each so long, so many
# at once. Not always the same, so that they do not all come back together,
# and never more than half a minute.

use List::Util qw(min max sum uniq);
use POSIX qw(ceil);
use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
$t->redis;
my $up = $t->upstream;

my $node = $t->node('n1', <<'EOF_CONF');
dsem_log_level info;
location /long_queue {
    dsem long limit=2 queue=41 timeout=60s;
    proxy_pass http://%%UPSTREAM%%;
}
location /longer_queue {
    dsem longer limit=1 queue=100 timeout=60s;
    proxy_pass http://%%UPSTREAM%%;
}
location /short_calls {
    dsem short limit=2 queue=2 timeout=60s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

# calls that are served before, in so many ms
sub before {
    my ($path, $limit, $ms) = @_;
    return map { $node->begin("$path?t=$ms") } 1 .. $limit;
}

# as many as there is room for
sub fill {
    my ($path, $limit, $queue) = @_;
    my $name = (split '_', substr $path, 1)[0];
    my @all = map { $node->begin("$path?hang=1") } 1 .. $limit + $queue;
    wait_for { waiting($name) == $queue };
    return @all;
}

sub told {
    my ($path) = @_;
    my @told = map {
        my $refused = $node->get($path);
        $refused->status == 503 ? $refused->header('Retry-After') : 'served';
    } 1 .. 40;
    note("$path: @told");
    return @told;
}

my @before = (before('/long_queue', 2, 500), before('/longer_queue', 1, 500),
    before('/short_calls', 2, 20));
is(max(map { $_->wait->status } @before), 200, 'calls measured');

# 42 behind each other, two at a time, half a second each, or longer on a busy
# machine

my @all = fill('/long_queue', 2, 41);
my $longer = max(map { $_->latency } @before[0, 1]) / 0.5;
my @told = told('/long_queue');
is(scalar(grep { !/^\d+$/ } @told), 0, 'each header a number');
cmp_ok(min(@told), '>=', 7, 'a quarter less at most');
cmp_ok(max(@told), '<=', 15 * $longer, 'a quarter more at most');
cmp_ok(sum(@told) / @told, '>', 9, 'values near ten');
cmp_ok(sum(@told) / @told, '<', 13 * $longer, 'average near ten');
cmp_ok(scalar(uniq @told), '>', 2, 'values vary');
$_->close for @all;

@all = fill('/longer_queue', 1, 100);
@told = told('/longer_queue');
cmp_ok(min(@told), '>=', 22, 'longer queue: about 30 s');
cmp_ok(max(@told), '<=', 30, '30 s never exceeded');
$_->close for @all;

# three behind each other, two at a time, and a quarter more at most: less than
# a second, unless the calls took longer than 0.4 s
@all = fill('/short_calls', 2, 2);
my $most = ceil(2.5 * max(map { $_->latency } @before[3, 4]));
@told = told('/short_calls');
is(scalar(grep { !/^\d+$/ } @told), 0, 'shorter queue: each a number');
is(min(@told), 1, 'shorter queue: minimum sent');
cmp_ok(max(@told), '<=', $most, 'shorter queue: no more');
$_->close for @all;
$up->release_all;

done_testing();

sub waiting { $t->state->waiting($_[0]) }
