#!/usr/bin/perl

# Recipe "Clients read how much is left", in a fleet: idle permits of another
# node count as in use. While Redis is unavailable the fields have the part of
# the worker, see also t/redis/local_figures.t; with "reject" and "pass" only the
# first one is there, where it has no permit.

use lib qw(t/lib t/run);
use Dsem::Recipe;
use Dsem::Test;
use Fleet::Conf;

my $recipe = recipe('Clients read how much is left',
    'listen 80;' => 'listen 127.0.0.1:%%PORT%%;', 'timeout=2s' => 'timeout=60s');
my $limit = Fleet::Conf::semaphore($recipe, 'api')->{limit};

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $up = $t->upstream;

my @nodes = $t->fleet(2, <<'EOF_CONF' =~ s/%%RECIPE%%/$recipe/r);
%%GLOBALS%%
worker_processes 2;
events { }
http {
    %%HTTP%%
    dsem_redis %%REDIS%%;
    dsem_node %%NODE%%;
    # the idle permits stay as long as the test needs them
    dsem_reuse 60s;
    upstream backend {
        server %%UPSTREAM%%;
    }
    %%RECIPE%%
    server {
        listen 127.0.0.1:%%PORT2%%;
        dsem other limit=20;
        add_header RateLimit-Policy $ratelimit_policy always;
        add_header RateLimit $ratelimit always;
        location /reject {
            dsem_on_error reject;
            proxy_pass http://backend;
        }
        location /pass {
            dsem_on_error pass;
            proxy_pass http://backend;
        }
    }
}
EOF_CONF
wait_for {
    $t->state->session_count == 4 && $t->state->subscribed == 4
} 30, 'sessions of all workers';

# The numbers of the two fields, "none" for one that is not there.
sub fields {
    my ($answer) = @_;
    my ($q) = ($answer->header('RateLimit-Policy') // '') =~ /^"\w+";q=(\d+);/;
    my ($r) = ($answer->header('RateLimit') // '') =~ /^"\w+";r=(\d+)$/;
    return join ' ', map { $_ // 'none' } $q, $r;
}

my @burst = map { $nodes[1]->begin('/api/?hang=1') } 1 .. $limit;
eventually { $up->now == $limit } 'all permits in use';
wait_for { $up->release_all; !grep { !$_->done } @burst } 30, 'the end';
# the others have gone back
$redis->all_beat(4) for 1, 2;
my $idle = $t->state->held('api');
cmp_ok $idle, '>', 0, 'some permits stay idle';
cmp_ok $idle, '<', $limit, 'but not all';
is fields($nodes[0]->get('/api/')), "$limit " . ($limit - $idle - 1),
    'idle ones of another node are in use';

$redis->kill;
my $seen;
eventually { ($seen = fields($nodes[0]->get('/api/'))) eq '5 4' }
    'the part of a worker' or diag $seen;
for my $way (qw(reject pass)) {
    my $url = 'http://127.0.0.1:' . $nodes[0]->port(2) . "/$way";
    eventually { ($seen = fields($nodes[0]->client->get($url))) eq '20 none' }
        "$way: no second field" or diag $seen;
}

$t->done;
