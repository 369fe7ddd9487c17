#!/usr/bin/perl

# Recipe "A deadline from the client": a request leaves the queue after its own
# deadline, while those without one wait on; a header that is no time counts as
# none.

use lib 't/lib', 't/run';
use Dsem::Recipe;
use Dsem::Test;
use Fleet::Conf;

my $recipe = recipe('A deadline from the client');
my $api = Fleet::Conf::semaphore($recipe, 'api');

my $t = Dsem::Test->new;
$t->redis;
my $up = $t->upstream;

my $node = $t->node('n1', <<'EOF_CONF' =~ s/%%RECIPE%%/$recipe/r);
%%GLOBALS%%
events { }
http {
    %%HTTP%%
    dsem_redis %%REDIS%%;
    dsem_node %%NODE%%;
    upstream backend {
        server %%UPSTREAM%%;
    }
    add_header X-Dsem $dsem_status always;
    %%RECIPE%%
}
EOF_CONF

my @holders = map { $node->begin('/api/?hang=1') } 1 .. $api->{limit};
wait_for { $up->now == $api->{limit} } 15, 'all permits in use';

# lower bounds show that each waited, the order that each has its own

my %deadline = ('200ms' => 0.2, '1s' => 1);
my %asked = map { $_ => $node->begin('/api/', 'X-Deadline' => $_) }
    '99s', '99999ms', '2h', '0', '0ms', '1x', '-1s', '100s', keys %deadline;
for my $time (sort keys %deadline) {
    my $request = delete $asked{$time};
    is($request->wait(30)->status, 504, "$time: refused");
    is($request->header('X-Dsem'), 'TIMEOUT', 'after its deadline');
    cmp_ok($request->latency, '>=', 0.9 * $deadline{$time}, 'not before');
}
for my $nonsense ('2h', '0', '0ms', '1x', '-1s', '100s') {
    my $request = delete $asked{$nonsense};
    is($request->wait(30)->header('X-Dsem'), 'TIMEOUT',
        "'$nonsense' is no deadline");
    cmp_ok($request->latency, '>=', 4.9, 'waits for 5 s');
}
is(scalar(grep { $_->done } values %asked), 0, 'longer ones wait on');
eventually { $t->state->waiting('api') == 2 } 'other places are free';

$up->release_all;
is($_->wait->status, 200, 'request served') for @holders, values %asked;
is($up->peak, $api->{limit}, 'limit never exceeded');

done_testing();
