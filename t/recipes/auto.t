#!/usr/bin/perl

# Recipe "The right number is not known": the limit is found between its
# bounds, over the fleet, and no request is lost meanwhile.

use lib 't/lib';
use Dsem::Recipe;
use Dsem::Test;

# a busy machine adds to the times
my $recipe = recipe('The right number is not known',
    'timeout=5s' => 'timeout=30s');
my ($min, $max) = $recipe =~ /limit=auto min=(\d+) max=(\d+)/;

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
    upstream backend {
        server %%UPSTREAM%%;
    }
    server {
        listen 127.0.0.1:%%PORT%%;
        %%RECIPE%%
    }
}
EOF_CONF

my $load = $t->load_start(clients => 60, seconds => 300,
    urls => [ map { $_->url('/api/?t=100&knee=20') } @fleet ]);
eventually { limit() >= 15 } 'more than at the start', 60;
my $result = $load->stop->wait;
cmp_ok limit(), '>=', $min, 'not below min';
cmp_ok limit(), '<=', $max, 'not above max';
is_deeply [ keys %{ $result->{statuses} } ], [200], 'all requests served'
    or diag explain $result->{statuses};

done_testing();

sub limit { return $t->state->lowest_limit('api') }
