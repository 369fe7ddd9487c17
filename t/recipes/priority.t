#!/usr/bin/perl

# Recipe "Paid traffic first": however many others ask, the paying find
# permits left, and room in the queue; and where both wait, they go first.

use lib qw(t/lib t/run);
use Dsem::Clock;
use Dsem::Recipe;
use Dsem::Test;
use Fleet::Conf;

# a busy machine needs longer to send all requests
my $recipe = recipe('Paid traffic first', 'timeout=5s' => 'timeout=60s');
my ($key) = $recipe =~ /^ +([0-9a-f]{24}) /m;
my $free = Fleet::Conf::semaphore($recipe, '$free');
my $all = Fleet::Conf::semaphore($recipe, 'search');

my $t = Dsem::Test->new;
my $clock = Dsem::Clock->new($t, monotonic => 1);
$t->redis;
my $up = $t->upstream;

my @fleet = $clock->fleet(2, <<'EOF_CONF' =~ s/%%RECIPE%%/$recipe/r);
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

# a crowd of free requests

my @crowd = map { free("crowd $_") } 1 .. $free->{limit} + $free->{queue};
eventually { $up->now == $free->{limit} } 'free tier limited';
eventually { waiting('free') == $free->{queue} } 'other requests queued';
is(free('one more')->wait->status, 503, 'or is refused');
is(waiting('search'), 0, 'paid queue empty');
my @paid = map { paid("paid $_") } 1 .. $all->{limit} - $free->{limit};
eventually { $up->now == $all->{limit} } 'paid requests find permits';

# a queue with both in it: the free came first

$_->close for splice @crowd, 3;
eventually { $up->now == 3 + @paid && waiting('free') == 0 }
    'many clients left';
push @paid, map { paid("next $_") } 1 .. $all->{limit} - 3 - @paid;
eventually { $up->now == $all->{limit} } 'limit reached';
wait_for { $t->state->subscribed == 2 } 15, 'all to be told of grants';
# a worker serves its own next request while a reply is late: none ever is
$clock->stop;
my @later;
for my $ask ((\&free) x 3, (\&paid) x 3) {
    push @later, $ask->('later ' . @later);
    wait_for { waiting('search') == @later };
}
for my $n (1 .. @later) {
    my $started = $up->started;
    $up->release(1);
    wait_for { $up->started == $started + 1 } 15, "$n more requests started";
}
$clock->go;
is_deeply([($up->order)[-6 .. -1]], [map { "later $_" } 3, 4, 5, 0, 1, 2],
    'paid first, then others');

$up->release_all;
is($_->wait->status, 200, 'request served') for @crowd, @paid, @later;
is($up->peak, $all->{limit}, 'limit never exceeded');

done_testing();

my $asked;

sub ask {
    my ($nonce, @header) = @_;
    return $fleet[ $asked++ % 2 ]->begin('/search/?hang=1',
        'X-Nonce' => $nonce, @header);
}

sub free { ask($_[0]) }
sub paid { ask($_[0], 'X-Api-Key' => $key) }

sub waiting {
    my ($name) = @_;
    return $t->state->waiting($name);
}
