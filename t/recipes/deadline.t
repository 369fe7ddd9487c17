#!/usr/bin/perl

# Recipe "A deadline from the client": a request leaves the queue after its own
# deadline, while those without one wait on; a header that is no time counts as
# none.

use lib 't/lib', 't/run';
use Dsem::Clock;
use Dsem::Recipe;
use Dsem::Test;
use Fleet::Conf;

my $recipe = recipe('A deadline from the client');
my $api = Fleet::Conf::semaphore($recipe, 'api');

my $t = Dsem::Test->new;
$t->redis;
my $up = $t->upstream;
my $clock = Dsem::Clock->new($t, monotonic => 1);

my $node = $clock->node('n1', <<'EOF_CONF' =~ s/%%RECIPE%%/$recipe/r);
%%GLOBALS%%
events { }
http {
    %%HTTP%%
    dsem_redis %%REDIS%%;
    dsem_node %%NODE%%;
    dsem_lease 10m;
    upstream backend {
        server %%UPSTREAM%%;
    }
    add_header X-Dsem $dsem_status always;
    %%RECIPE%%
}
EOF_CONF

my @holders = map { $node->begin('/api/?hang=1') } 1 .. $api->{limit};
wait_for { $up->now == $api->{limit} } 15, 'all permits in use';

# by a clock that stands but for the steps of the test

$clock->stop;
my %asked = map { $_ => $node->begin('/api/', 'X-Deadline' => $_) }
    '99s', '99999ms', '2h', '0', '0ms', '1x', '-1s', '100s', '200ms', '1s';
wait_for { $t->state->waiting('api') == keys %asked } 15, 'all of them wait';
my $passed = 0;
for ([0.2, '200ms'], [1, '1s'], [5, '2h', '0', '0ms', '1x', '-1s', '100s']) {
    my ($seconds, @deadlines) = @$_;
    $clock->step($seconds - 0.01 - $passed);
    # the first one is answered before timers that have ended
    is($node->get('/turn')->status, 404, 'a turn of the worker') for 1, 2;
    is(scalar(grep { $_->done } values %asked), 0, "not before $seconds s");
    $clock->step(0.02);
    for my $deadline (@deadlines) {
        my $request = delete $asked{$deadline};
        is($request->wait->status, 504, "'$deadline': refused");
        is($request->header('X-Dsem'), 'TIMEOUT', "after $seconds s");
    }
    $passed = $seconds + 0.01;
}
is(scalar(grep { $_->done } values %asked), 0, 'longer ones wait on');
eventually { $t->state->waiting('api') == 2 } 'other places are free';

$clock->go;
$up->release_all;
is($_->wait->status, 200, 'request served') for @holders, values %asked;
is($up->peak, $api->{limit}, 'limit never exceeded');

done_testing();
