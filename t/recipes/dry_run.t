#!/usr/bin/perl

# Recipe "A dry run before enforcement": everything passes while the log says
# what would have been, and the command counts it; without that one line the
# same configuration refuses. The format of monitoring/ stands beside that of the
# recipe.

use lib qw(t/lib t/run);
use Dsem::Recipe;
use Dsem::Test;
use Fleet::Conf;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $up = $t->upstream;

my $logs = $t->dir;
# so few that all are there before the first one has waited for its time
my ($recipe, $command) = recipe('A dry run before enforcement',
    'limit=20 queue=40' => 'limit=5 queue=8',
    '/var/log/nginx' => $logs);
my $line = Fleet::Conf::semaphore($recipe, 'search');
my ($limit, $queue) = @$line{qw(limit queue)};

my $conf = <<'EOF_CONF' =~ s/%%RECIPE%%/$recipe/r;
%%GLOBALS%%
events { }
http {
    %%HTTP%%
    dsem_redis %%REDIS%%;
    dsem_node %%NODE%%;
    include %%FORMAT%%;
    upstream backend {
        server %%UPSTREAM%%;
    }
    %%RECIPE%%
}
EOF_CONF
my $node = $t->node('n1', $conf,
    FORMAT => $t->root . '/monitoring/dsem.log.conf');

# twice as many as there is place for, at once

my $places = $limit + $queue;
my @requests = map { $node->begin('/search/?hang=1') } 1 .. 2 * $places;
eventually { $up->now == 2 * $places } 'all requests at backend';
wait_for { $node->grep_log(qr/dsem timeout, dry run/) == $queue } 15,
    'waits counted';
$up->release_all;
is(scalar(grep { $_->wait->status == 200 } @requests), 2 * $places,
    'all requests served');
wait_for { logged() == @requests } 15, 'all lines of the log';
is_deeply(counted(), {
    PASSED => $limit, TIMEOUT_DRY_RUN => $queue, REJECTED_DRY_RUN => $places,
}, 'verdicts in error log');

# a request that has ended before the reply of Redis has no verdict
my $more = 0;
eventually {
    $more++;
    $node->get('/search/?t=1')->status == 200 && counted()->{PASSED} > $limit;
} 'one more request passed';
like(log_text(), qr/ name=search wait=\d\.\d{3} .* in_use=1\/$limit "GET /,
    'numbers logged');

# and when it counts

$up->reset;
$node->reload($conf =~ s/dsem_dry_run on;//r);
@requests = map { $node->begin('/search/?hang=1') } 1 .. $limit;
eventually { $up->now == $limit } 'limit reached';
push @requests, map { $node->begin('/search/?hang=1') } 1 .. $places;
wait_for { counted()->{REJECTED} } 15, 'first request rejected';
eventually { $up->release_all; !grep { !$_->done } @requests } 'all answered';
is($up->peak, $limit, 'limit never exceeded');
# those of before, and some more
wait_for { logged() == 2 * $places + $more + @requests } 15, 'their lines';
# a busy machine may let some wait for their time
my $counted = counted();
is(scalar(grep { $_->status == 503 } @requests),
    $counted->{REJECTED} + ($counted->{TIMEOUT} // 0), 'the others rejected');

done_testing();

sub log_text { Fleet::Conf::read_text("$logs/dry_run.log") }

sub logged { scalar(() = log_text() =~ /\n/g) }

# what the command of the recipe finds
sub counted {
    my %n = reverse map { split ' ' } split /\n/, qx($command);
    return { map { s/^dsem=//r => $n{$_} } keys %n };
}
