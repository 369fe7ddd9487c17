#!/usr/bin/perl

# Recipe "Batch gets a trickle": beside an overload of interactive requests
# batch jobs have one permit of ten, all the time; each uses all permits while
# the other sends nothing.

use lib 't/lib', 't/run';
use Dsem::Clock;
use Dsem::Recipe;
use Dsem::Test;
use Fleet::Conf;

# a busy machine needs longer to send all requests
my $recipe = recipe('Batch gets a trickle', 'timeout=5s' => 'timeout=5m');
my ($key) = $recipe =~ /^ +([0-9a-f]{24}) /m;
my $all = Fleet::Conf::semaphore($recipe, 'search');
my %share = $recipe =~ /^ +(interactive|batch) +(\d+);/mg;

my $t = Dsem::Test->new;
my $clock = Dsem::Clock->new($t, monotonic => 1);
$t->redis;
my $up = $t->upstream;

my @fleet = $clock->fleet(2, <<'EOF_CONF' =~ s/%%RECIPE%%/$recipe/r);
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    dsem_redis %%REDIS%%;
    dsem_node %%NODE%%;
    upstream backend {
        server %%UPSTREAM%%;
    }
    %%RECIPE%%
}
EOF_CONF

wait_for { $t->state->subscribed == 2 } 15, 'all to be told of grants';
# a worker serves its own next request while a reply is late: none ever is
$clock->stop;

# both, interactive ones first; before any hold time is known, so that the order
# does not depend on times

my $turns = 8;
my @first = map { ask('interactive') } 1 .. $all->{limit};
wait_for { $up->now == $all->{limit} } 15, 'all permits in use';
my @interactive = map { ask('interactive') } 1 .. $turns * $share{interactive};
wait_for { $t->state->waiting('search') == @interactive } 15, 'a queue';
my @batch = map { ask('batch') } 1 .. $turns * $share{batch};
wait_for { $t->state->waiting('search') == @interactive + @batch } 15,
    'batch jobs in the queue';
is(scalar(grep { $_->done } @interactive, @batch), 0, 'none rejected');

for (1 .. @interactive + @batch) {
    my $started = $up->started;
    $up->release(1);
    wait_for { $up->started > $started } 15, 'the next request';
}
$up->release_all;
$_->wait for @first, @interactive, @batch;
$clock->go;

my @order = map { $_->{sem} }
    sort { $a->{start} <=> $b->{start} } $up->log;
splice @order, 0, @first;
my ($least, $most) = ($all->{limit}, 0);
for my $from (0 .. @order - $all->{limit}) {
    my $n = grep { $_ eq 'batch' }
        @order[ $from .. $from + $all->{limit} - 1 ];
    $least = $n if $n < $least;
    $most = $n if $n > $most;
}
cmp_ok($least, '>=', 1, 'a batch job at any time');
cmp_ok($most, '<=', 2, 'not more than a trickle');
note("$least to $most of $all->{limit} permits for batch jobs");
is($up->peak('interactive') + 0, $all->{limit}, 'limit reached');
cmp_ok($_->status, '==', 200, 'served') for @first, @interactive, @batch;

# each alone

for my $class (qw(batch interactive)) {
    my @alone = map { ask($class) } 1 .. $all->{limit};
    eventually { $up->now == $all->{limit} } "$class alone: all permits";
    wait_for { $up->release_all; !grep { !$_->done } @alone } 15, 'the end';
}

is($up->peak, $all->{limit}, 'limit never exceeded');

done_testing();

my $asked;

# the oracle counts by X-Sem, too
sub ask {
    my ($class) = @_;
    return $fleet[ $asked++ % 2 ]->begin('/search/?hang=1',
        'X-Sem' => $class,
        $class eq 'interactive' ? ('X-Api-Key' => $key) : ());
}
