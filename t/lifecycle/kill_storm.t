#!/usr/bin/perl

# Workers are killed one after the other under load, with permits held and
# tickets waiting. The upstream never sees more than the limit, and no dead
# session is left.

use lib 't/lib';
use List::Util qw(max);

use Dsem::Test;

my $LIMIT = 6;
my $KILLS = $ENV{DSEM_LONG} ? 30 : 6;

my $t = Dsem::Test->new;
$t->redis;
my $up = $t->upstream;

my @fleet = $t->fleet(2, <<'EOF_CONF');
worker_processes 2;
location /storm {
    dsem api limit=6 queue=100 timeout=20s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

my $load = $t->load_start(clients => 24, seconds => 600,
    urls => [ map { my $t = $_; map { $_->url("/storm?t=$t") } @fleet }
        50, 80, 120 ]);
wait_for { $up->now == $LIMIT } 15, 'load';

my ($longest, $full, $most) = (0, 0, 0);
for my $i (1 .. $KILLS) {
    all_used(40, 'the load to go on');
    my $node = $fleet[ $i % 2 ];
    my @workers = $node->workers;
    my $dies = $workers[ $i / 2 % 2 ];
    $node->kill_worker($dies);
    my $killed = now;
    wait_for { !grep { $_ == $dies } $node->workers } 15, 'the end of the worker';
    $full++ if all_used(0, 'the limit again');
    $longest = now - $killed if now - $killed > $longest;
    wait_for { $node->workers == 2 } 15, 'successor started';
}
is $full, $KILLS, 'limit reached again';
note sprintf 'at most %.2f s', $longest;
my $result = $load->stop->wait;
is max($most, $up->peak), $LIMIT, 'limit never exceeded';
cmp_ok $result->{statuses}{200}, '>', 40 * $KILLS, 'service continues';
my %status = %{ $result->{statuses} };
is_deeply [ grep { /^\d+$/ && $_ != 200 } keys %status ], [],
    'no other statuses';
is $result->{mismatched}, 0, 'each response complete';
note join ', ', map { "$_ $status{$_}" } sort keys %status;

eventually { !$t->state->exists('api') } 'nothing held, none waiting';
eventually { $t->state->session_count == 4 } 'only live sessions';
eventually { $KILLS == map { $_->grep_log(qr/of a dead worker/) } @fleet }
    'one removal per killed worker';

$t->done;

# All permits are in use at one time, and so many requests are served.
sub all_used {
    my ($served, $what) = @_;
    $most = max($most, $up->peak);
    $up->reset;
    return wait_for { $up->served >= $served && $up->peak >= $LIMIT } 10, $what;
}
