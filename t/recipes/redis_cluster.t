#!/usr/bin/perl

# Recipe "With Redis Cluster": the cap holds over the fleet, and a request that waits
# during a failover is served.

use lib qw(t/lib t/run);
use Dsem::Cluster;
use Dsem::Recipe;
use Dsem::Test;
use Fleet::Conf;

my $t = Dsem::Test->new;
my $cluster = Dsem::Cluster->new($t, name => 'reports');
my $up = $t->upstream;

my @named = ($cluster->nodes)[0 .. 2];
my $recipe = recipe('With Redis Cluster', 'timeout=10s' => 'timeout=60s',
    map { '10.0.0.' . (5 + $_) . ':6379' => $named[$_]->address } 0 .. 2);
my $limit = Fleet::Conf::semaphore($recipe, 'reports')->{limit};

my @fleet = $t->fleet(2, <<'EOF_CONF' =~ s/%%RECIPE%%/$recipe/r);
%%GLOBALS%%
events { }
http {
    %%HTTP%%
    dsem_node %%NODE%%;
    upstream backend {
        server %%UPSTREAM%%;
    }
    %%RECIPE%%
}
EOF_CONF

my @served = map { $fleet[ $_ % 2 ]->begin('/reports/?hang=1') } 1 .. $limit;
eventually { $up->now == $limit } 'limit reached';
my $waiting = $fleet[0]->begin('/reports/?hang=1');
eventually { $t->state->waiting('reports') == 1 } 'next request queued';

my $replica = $cluster->replica;
ok !(grep { $_ == $replica } @named), 'replica not named';
$cluster->failover;
is $cluster->owner, $replica, 'replica promoted';
$up->release(1);
eventually { $up->started == $limit + 1 } 'next request served';
$up->release_all;
is $_->wait->status, 200, 'request served' for @served, $waiting;
is $up->peak, $limit, 'limit never exceeded';

$t->done;
