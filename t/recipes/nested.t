#!/usr/bin/perl

# Recipe "A backend that calls itself": pages that fill their limit do not keep
# their parts from being served. With one name for both they would.

use lib qw(t/lib t/run);
use Dsem::Recipe;
use Dsem::Test;
use Fleet::Conf;

my $recipe = recipe('A backend that calls itself',
    'timeout=5s' => 'timeout=60s');
my ($pages, $parts) = map { Fleet::Conf::semaphore($recipe, $_) }
    qw(pages parts);
my $one = $recipe =~ s/dsem parts limit=\d+/dsem pages limit=$pages->{limit}/r;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $up = $t->upstream;

# Calls of the backend come back to the same server; one/ is beside the recipe.
my $conf = <<'EOF_CONF';
%%GLOBALS%%
events { }
http {
    %%HTTP%%
    dsem_redis %%REDIS%%;
    dsem_prefix %%NODE%%;
    dsem_node %%NODE%%;
    upstream backend {
        server 127.0.0.1:%%PORT2%%;
    }
    server {
        listen 127.0.0.1:%%PORT%%;
        %%RECIPE%%
    }
    server {
        listen 127.0.0.1:%%PORT2%%;
        location /pages/ { proxy_pass http://127.0.0.1:%%PORT%%/parts/; }
        location /parts/ { proxy_pass http://%%UPSTREAM%%; }
    }
}
EOF_CONF

my ($nested, $trapped) = map {
    $t->node($_->[0], $conf =~ s/%%RECIPE%%/$_->[1]/r)
} [ 'nested', $recipe ], [ 'trapped', $one ];

cmp_ok $parts->{limit}, '>=', $pages->{limit}, 'room for a part of each page';
my @pages = map { $nested->begin('/pages/?hang=1') } 1 .. $pages->{limit} + 5;
eventually { $up->now == $pages->{limit} } 'a part of each page is served';
wait_for { $up->release_all; !grep { !$_->done } @pages };
is_deeply [ map { $_->status } @pages ], [ (200) x @pages ], 'all pages';

# each part that is served has two permits: its own, and that of its page

my $n = 2 * $pages->{limit};
@pages = map { $trapped->begin('/pages/?hang=1') } 1 .. $n;
my $state = Dsem::State->new($redis, 'trapped:{0}');
eventually { $state->held('pages') == $pages->{limit}
    && $state->waiting('pages') == $n - $up->now } 'one name: all permits used';
cmp_ok $up->now, '<=', $pages->{limit} / 2, 'half of the parts at most';
$_->close for @pages;
eventually { !$state->held('pages') && !$state->waiting('pages') } 'all back';

$t->done;
