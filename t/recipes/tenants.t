#!/usr/bin/perl

# Recipe "Fair shares for tenants": a tenant that asks for more than all
# others together has its share and no more; the others are served at once,
# and meet each other only where the cap for all is reached.

use lib qw(t/lib t/run);
use Dsem::Recipe;
use Dsem::Test;
use Fleet::Conf;

# a busy machine needs longer to send all requests
my $recipe = recipe('Fair shares for tenants', 'timeout=3s' => 'timeout=60s');
my $share = Fleet::Conf::semaphore($recipe, '"tenant:$tenant"');
my $all = Fleet::Conf::semaphore($recipe, 'api');
my %key = reverse $recipe =~ /^ +([0-9a-f]{24}) +(\w+);/mg;

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
    %%RECIPE%%
}
EOF_CONF

# the greedy one

my @greedy = map { ask('acme', hang => 1) }
    1 .. $share->{limit} + $share->{queue};
eventually { $up->now('acme') == $share->{limit} } 'tenant share used';
eventually { waiting('tenant:acme') == $share->{queue} }
    'other requests queued';
is(waiting('api'), 0, 'global queue empty');
my $refused = ask('acme');
is($refused->wait->status, 503, 'excess rejected');
is(line_of($refused)->{dsem_name}, 'tenant:acme', 'rejected by tenant cap');

# the others

for (1 .. 5) {
    my $request = ask('globex');
    is($request->wait->status, 200, 'second tenant served');
    is(line_of($request)->{dsem_status}, 'PASSED', 'second tenant not queued');
}
my @globex = map { ask('globex', hang => 1) } 1 .. $share->{limit};
eventually { $up->now('globex') == $share->{limit} } 'second share used';

# all together

my $left = $all->{limit} - 2 * $share->{limit};
my @strangers = map { ask($_, hang => 1) } 1 .. $share->{limit};
eventually { $up->now == $all->{limit} } 'global limit reached';
eventually { waiting('api') == $share->{limit} - $left }
    'few requests queued globally';
is($t->state->held('tenant:stranger'), $share->{limit},
    'unknown tenants share a name');

$up->release_all;
is($_->wait->status, 200, 'request served') for @globex;
wait_for { $up->release_all; !grep { !$_->done } @greedy, @strangers } 10,
    'the rest';
cmp_ok(scalar(grep { $_->status == 200 } @greedy), '>', $share->{limit},
    'greedy tenant served in turn');
is($up->peak('acme'), $share->{limit}, 'share never exceeded');
is($up->peak, $all->{limit}, 'limit never exceeded');

done_testing();

# the oracle counts by X-Sem
my $asked;

sub ask {
    my ($tenant, %arg) = @_;
    my $path = join '&', '/api/?t=1', map { "$_=$arg{$_}" } keys %arg;
    return $fleet[ $asked++ % 2 ]->begin($path, 'X-Sem' => $tenant,
        'X-Api-Key' => $key{$tenant} // $tenant);
}

sub line_of {
    my ($request) = @_;
    return wait_for {
        my ($line) = grep { $_->{http_x_nonce} eq $request->nonce }
            map { $_->access_log } @fleet;
        $line;
    } 15, 'its line in a log';
}

sub waiting {
    my ($name) = @_;
    return $t->state->waiting($name);
}
