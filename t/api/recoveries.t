#!/usr/bin/perl

# A node counts each recovery of Redis once, whichever of its workers meet it:
# losses of all state, and a restart from disk. A reload is none, also one that
# leads to other keys.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
my $redis = $t->redis(args => [qw(--dbfilename dump.rdb)]);

my $conf = <<'EOF_CONF';
worker_processes 2;
dsem_prefix one;
location / {
    dsem a limit=2;
    return 204;
}
location = /dsem/metrics { dsem_api; }
EOF_CONF
my $node = $t->node('n1', $conf);
my $one = Dsem::State->new($redis, 'one:{0}');
my $two = Dsem::State->new($redis, 'two:{0}');

sub counted {
    my ($n) = $node->get('/dsem/metrics')->body
        =~ /^dsem_redis_recoveries_total (\d+)$/m;
    return $n;
}

# a heartbeat of each worker
sub beat {
    my ($state) = @_;
    wait_for { $state->session_count == 2 } 15, 'both workers';
    my $before = $state->lease_ends;
    wait_for {
        my $ends = $state->lease_ends;
        !grep { ($ends->{$_} // 0) <= $before->{$_} } keys %$before;
    } 15, 'a heartbeat of each';
}

beat($one);
is counted(), 0, 'none at first';

my $n = 0;
for (['loss', sub { $redis->cmd('FLUSHALL') }],
    ['another loss', sub { $redis->empty }],
    ['restart from disk', sub { $redis->cmd('SAVE'); $redis->kill->start }])
{
    my ($what, $happens) = @$_;
    $happens->();
    $n++;
    eventually { counted() == $n } "$what: counted";
    beat($one);
    is counted(), $n, "$what: once";
}

$node->reload;
beat($one);
is counted(), $n, 'none by a reload';

$node->reload($conf =~ s/one/two/r);
beat($two);
is counted(), $n, 'none by other keys';

$t->done;
