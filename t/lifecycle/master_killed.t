#!/usr/bin/perl

# The master process is killed. Its workers keep serving with their sessions:
# no permit and no ticket is lost, and the limit holds over the fleet. Their
# sessions are removed when they exit.

use POSIX qw(WNOHANG);
use lib 't/lib';
use Dsem::Test;

my ($LIMIT, $LEASE) = (4, 2);

my $t = Dsem::Test->new(lease => $LEASE);
$t->redis;
my $up = $t->upstream(service => 0.020);

my ($orphaned, $other) = $t->fleet(2, <<'EOF_CONF');
worker_processes 2;
dsem_lease 2s;
location /goes_on {
    dsem api limit=4 queue=100 timeout=20s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

sub sessions {
    my ($node) = @_;
    my @all = grep { /^$node:/ } sort $t->state->sessions;
    return join ' ', @all;
}

sub epochs {
    my $entries = $t->state->entries;
    return { map { $_ => $entries->{$_}{epoch} }
        grep { /^n1:/ } keys %$entries };
}

eventually { sessions('n1') =~ / / && sessions('n2') =~ / / } 'four sessions';
my @workers = $orphaned->workers;
my ($before, $epochs) = (sessions('n1'), epochs());

my $load = $t->load_start(clients => 16, seconds => 600,
    urls => [ map { $_->url('/goes_on') } $orphaned, $other ]);
wait_for { $up->now == $LIMIT } 15, 'load';
my @long = map { $orphaned->begin('/goes_on?hang=1') } 1, 2;
wait_for { my %at = map { $_->{nonce} => 1 } $up->log;
    !grep { !$at{ $_->nonce } } @long } 15, 'long requests';

$orphaned->kill_worker($orphaned->pid);
wait_for { !$orphaned->alive } 15, 'the end of the master';
my $killed = now;
my $served = $up->served;
wait_for { now > $killed + 1.3 * $LEASE } 10, 'more than a lease';

is scalar(grep { kill 0, $_ } @workers), 2, 'workers alive';
eventually { $up->served > $served + 50 } 'service continues';
my %by;
$by{ $_->{pid} }++ for $orphaned->access_log;
is scalar(grep { $by{$_} } @workers), 2, 'both workers serve';
is sessions('n1'), $before, 'same sessions';
is_deeply epochs(), $epochs, 'same epochs';

$up->release_all;
is $_->wait->status, 200, 'long requests served' for @long;
my $result = $load->stop->wait;
is_deeply [ keys %{ $result->{statuses} } ], [200], 'no request lost'
    or diag explain $result->{statuses};
is $result->{mismatched}, 0, 'each response complete';
is $up->peak, $LIMIT, 'limit reached, never exceeded';

# as an operator would end them

kill 'QUIT', @workers;
eventually { sessions('n1') eq '' } 'sessions removed on exit';
# they are orphans, and the test has taken them
eventually { @workers = grep { !waitpid $_, WNOHANG } @workers; !@workers }
    'workers leave';
is scalar($other->grep_log(qr/lease of/)), 0, 'no lease expired';
is $other->get('/goes_on')->status, 200, 'other node serves';

$t->done;
