#!/usr/bin/perl

# Recipe "Clients read how much is left": the fields of responses, of a request
# that passes and of one that is rejected; none where nothing is limited.

use lib qw(t/lib t/run);
use Dsem::Recipe;
use Dsem::Test;
use Fleet::Conf;

my $recipe = recipe('Clients read how much is left',
    'listen 80;' => 'listen 127.0.0.1:%%PORT%%;', 'timeout=2s' => 'timeout=60s');
my $api = Fleet::Conf::semaphore($recipe, 'api');

my $t = Dsem::Test->new;
$t->redis;
my $up = $t->upstream;

my $node = $t->node('a', <<'EOF_CONF' =~ s/%%RECIPE%%/$recipe/r);
%%GLOBALS%%
events { }
http {
    %%HTTP%%
    dsem_redis %%REDIS%%;
    dsem_node %%NODE%%;
    upstream backend {
        server %%UPSTREAM%%;
    }
    %%RECIPE%%
    server {
        listen 127.0.0.1:%%PORT2%%;
        location / {
            add_header RateLimit-Policy $ratelimit_policy;
            add_header RateLimit $ratelimit;
            proxy_pass http://backend;
        }
    }
}
EOF_CONF

my $policy = qq("api";q=$api->{limit};qu="concurrent-requests");
my $first = $node->get('/api/');
is $first->header('RateLimit-Policy'), $policy, 'policy';
is $first->header('RateLimit'), '"api";r=' . ($api->{limit} - 1),
    'one of them is its own';

my @all = map { $node->begin('/api/?hang=1') }
    1 .. $api->{limit} + $api->{queue};
eventually { $up->now == $api->{limit}
    && $t->state->waiting('api') == $api->{queue} } 'all permits in use';
my $rejected = $node->get('/api/');
is $rejected->status, 429, 'one more rejected';
is $rejected->header('RateLimit-Policy'), $policy, 'its policy';
is $rejected->header('RateLimit'), '"api";r=0', 'nothing left';
like $rejected->header('Retry-After'), qr/^\d+$/, 'when to try again';
wait_for { $up->release_all; !grep { !$_->done } @all } 30, 'the end';

my $free = $node->client->get('http://127.0.0.1:' . $node->port(2) . '/');
is $free->header($_), undef, "not limited: no $_"
    for qw(RateLimit-Policy RateLimit);

$t->done;
