#!/usr/bin/perl

# Recipe "With auth_request and mirror": subrequests that are proxied to a
# server of their own are limited in the whole fleet.

use lib qw(t/lib t/run);
use Dsem::Recipe;
use Dsem::Test;
use Fleet::Conf;

# a busy machine adds to the times
my $recipe = recipe('With auth_request and mirror',
    'timeout=2s' => 'timeout=60s',
    '/run/nginx-limited.sock' => '%%DIR%%/limited.sock');
my $limit = Fleet::Conf::semaphore($recipe, 'authorize')->{limit};

my $t = Dsem::Test->new;
$t->redis;
my $up = $t->upstream;

my @fleet = $t->fleet(2, <<'EOF_CONF' =~ s/%%RECIPE%%/$recipe/r);
%%GLOBALS%%
events { }
http {
    %%HTTP%%
    dsem_redis %%REDIS%%;
    dsem_node %%NODE%%;
    proxy_set_header X-Sem $uri;
    upstream backend {
        server unix:%%DIR%%/backend.sock;
    }
    # a check takes 20 ms
    server {
        listen unix:%%DIR%%/backend.sock;
        location / {
            proxy_pass http://%%UPSTREAM%%;
        }
        location = /authorize {
            proxy_pass http://%%UPSTREAM%%/authorize?t=20;
        }
    }
    %%RECIPE%%
}
EOF_CONF

is $_->get('/page?t=1')->status, 200, 'request authorized' for @fleet;
$up->reset;

my @load = map { $t->load_start(urls => [$_->url('/page?t=20')],
    clients => 10, requests => 100) } @fleet;
is_deeply $_->wait->{statuses}, { 200 => 100 }, 'all requests served'
    for @load;
is $up->peak('/authorize'), $limit, 'limit reached, never exceeded';

# authorized requests themselves are not limited

my @pages = map { $fleet[0]->begin('/page?hang=1') } 1 .. $limit + 1;
eventually { $up->now('/page') == $limit + 1 } 'requests not limited';
$up->release_all;
$_->wait for @pages;

eventually { $t->state->held('authorize') == 0 } 'no permit held';

$t->done;
