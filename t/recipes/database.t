#!/usr/bin/perl

# Recipe "Protect a database": the cap holds over the fleet, heavy requests
# count for more, and a client that leaves frees nothing, because its query
# goes on.

use lib qw(t/lib t/run);
use Dsem::Recipe;
use Dsem::Test;
use Fleet::Conf;

# a busy machine needs longer to send all requests
my $recipe = recipe('Protect a database', 'timeout=2s' => 'timeout=60s',
    'timeout=10s' => 'timeout=60s');
my $line = Fleet::Conf::semaphore($recipe, 'database');
my $limit = $line->{limit};
my ($exports, $weight) = $recipe =~ /queue=(\d+) \S+ weight=(\d+)/;

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
    # no more may wait for permits that the other node may have idle
    dsem_reuse off;
    upstream backend {
        server %%UPSTREAM%%;
    }
    server {
        listen 127.0.0.1:%%PORT%%;
        %%RECIPE%%
    }
}
EOF_CONF

my @served = map { $fleet[ $_ % 2 ]->begin('/api/?hang=1') } 1 .. $limit;
eventually { $up->now == $limit } 'limit reached';
my $waiting = $fleet[0]->begin('/api/?t=1');
eventually { state() eq "$limit 1" } 'next request queued';

# whoever leaves while it is served

(shift @served)->close;
$fleet[1]->get('/nowhere') for 1 .. 3;
is($up->now, $limit, 'query still running');
is(state(), "$limit 1", 'permit still held');
$up->release(1);
is($waiting->wait->status, 200, 'next request served');

# exports

$up->release_all;
is($_->wait->status, 200, 'request served') for @served;
my $export = $fleet[0]->begin('/export/?hang=1');
eventually { $up->now == 1 && state() eq "$weight 0" } 'export weighs more';
@served = map { $fleet[ $_ % 2 ]->begin('/api/?hang=1') }
    1 .. $limit - $weight;
eventually { $up->now == 1 + $limit - $weight } 'fewer requests beside export';
my @more = map { $fleet[ $_ % 2 ]->begin('/api/?t=1') } 1 .. $exports;
eventually { state() eq "$limit $exports" } 'some requests queued';
is($fleet[0]->get('/export/')->status, 503, 'export rejected');
push @more, $fleet[1]->begin('/api/?t=1');
eventually { state() eq "$limit " . @more } 'light request queued';
$up->release_all;
is($_->wait->status, 200, 'request served') for $export, @served, @more;
is($up->peak, $limit, 'limit never exceeded');

done_testing();

# permits held and tickets waiting
sub state { return $t->state->counts('database') }
