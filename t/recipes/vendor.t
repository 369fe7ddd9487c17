#!/usr/bin/perl

# Recipe "Egress to a vendor with five slots": the vendor has no more than five
# calls of both nodes, a call whose client has left is one of them, and without
# Redis no further call is made.

use lib qw(t/lib t/run);
use Dsem::Recipe;
use Dsem::Test;
use Fleet::Conf;

# the vendor is the backend on this machine, which has no TLS
my $recipe = recipe('Egress to a vendor with five slots',
    'server api.vendor.example:443' => 'server %%UPSTREAM%%',
    'https://vendor' => 'http://vendor');
my $limit = Fleet::Conf::semaphore($recipe, 'vendor')->{limit};

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $up = $t->upstream;

my @fleet = $t->fleet(2, <<'EOF_CONF' =~ s/%%RECIPE%%/$recipe/r);
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    dsem_redis %%REDIS%%;
    dsem_node %%NODE%%;
    dsem_redis_connect_timeout 500ms;
    add_header X-Dsem $dsem_status always;
    %%RECIPE%%
}
EOF_CONF

my @calls = map { $fleet[ $_ % 2 ]->begin('/?hang=1') } 1 .. $limit;
wait_for { $up->now == $limit } 15, 'all slots in use';
push @calls, map { $fleet[ $_ % 2 ]->begin('/?hang=1') } 1 .. $limit;
wait_for { $t->state->waiting('vendor') == $limit } 15, 'others wait';

(shift @calls)->abort;
$redis->beats(4);
is $t->state->waiting('vendor'), $limit, 'a client has left, its call goes on';
is $up->now, $limit, 'in its slot';
eventually { $up->release_all; !grep { !$_->done } @calls } 'all served';
is scalar(grep { $_->status != 200 } @calls), 0, 'without a refusal';
is $up->peak, $limit, 'never a sixth call';

# without Redis

wait_for { $t->state->held('vendor') == 0 } 15, 'quiet';
$redis->stop;
eventually { !grep { $_->get('/dsem-none')->header('X-Dsem') ne 'ERROR' }
    @fleet } 'no call without Redis';
is $up->peak, $limit, 'and none beside the five';
$redis->start;
eventually { !grep { $_->get('/')->status != 200 } @fleet } 'and back';

$t->done;
