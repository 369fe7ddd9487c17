#!/usr/bin/perl

# Recipe "A noisy tenant": a tenant that has all permits and fills the queue
# gives way to another one, by requests of its own, and the other one has its
# share of the permits that come free.

use lib qw(t/lib t/run);
use Dsem::Recipe;
use Dsem::Test;
use Fleet::Conf;

# a busy machine needs longer to send all requests
my $recipe = recipe('A noisy tenant', 'timeout=3s' => 'timeout=30s');
my $api = Fleet::Conf::semaphore($recipe, 'api');
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
    dsem_log_level info;
    upstream backend {
        server %%UPSTREAM%%;
    }
    %%RECIPE%%
}
EOF_CONF

# the noisy one

my @noisy = map { ask('/api/', 'acme') } 1 .. $api->{limit} + $api->{queue};
eventually { $up->now == $api->{limit} } 'all permits in use';
eventually { $t->state->waiting('api') == $api->{queue} } 'queue full', 10;

# the other one

my @other = map { ask('/api/', 'globex') } 1 .. 4;
eventually { rejected(@noisy) == 4 } 'requests of the noisy tenant rejected';
is($t->state->waiting('api'), $api->{queue}, 'queue full');
is(scalar(grep { $_->done } @other), 0, 'other tenant not rejected');

served(10);
eventually { $up->now('globex') == 4 } 'other tenant served within ten';

# both locations are one queue

my $vip = ask('/vip/', 'globex');
wait_for { $up->release_all; !grep { !$_->done } @noisy, @other, $vip } 20,
    'the rest';
is(scalar(grep { $_->status == 200 } @other, $vip), 5, 'all served');
cmp_ok(scalar(grep { $_->status == 200 } @noisy), '>=',
    $api->{limit} + $api->{queue} - 5, 'noisy tenant served, too');
is($up->peak, $api->{limit}, 'limit never exceeded');

done_testing();

# the oracle counts by X-Sem
my $asked;

sub ask {
    my ($path, $tenant) = @_;
    return $fleet[ $asked++ % 2 ]->begin("$path?hang=1", 'X-Sem' => $tenant,
        'X-Api-Key' => $key{$tenant});
}

sub rejected {
    return scalar grep { $_->done && $_->status == 503 } @_;
}

# One after the other, the oldest first.
sub served {
    my ($n) = @_;
    for (1 .. $n) {
        my $started = $up->started;
        $up->release(1);
        wait_for { $up->started > $started } 10, 'the next request';
    }
}
