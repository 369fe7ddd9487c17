#!/usr/bin/perl

# Recipe "With limit_req": who comes too often is answered before dsem is
# asked, without a permit or a place in the queue, and is told apart from who
# is refused by dsem; who is delayed holds nothing meanwhile.

use lib qw(t/lib t/run);
use Dsem::Recipe;
use Dsem::Test;
use Fleet::Conf;

my $recipe = recipe('With limit_req');
my $line = Fleet::Conf::semaphore($recipe, 'api');
my ($burst) = $recipe =~ /burst=(\d+)/;

my $t = Dsem::Test->new;
$t->redis;
my $up = $t->upstream;

my $conf = <<'EOF_CONF' =~ s/%%RECIPE%%/$recipe/r;
%%GLOBALS%%
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
my $node = $t->node('n1', $conf);

# more than it lets through in a second, and more than dsem does

my @requests = map { $node->begin('/api/?hang=1') } 1 .. $burst + 60;
eventually { $up->now == $line->{limit} } 'limit reached';
my $queued;
eventually {
    # timed out: were queued
    $queued = waiting() + refused(503);
    @requests == refused(429) + held() + $queued;
} 'all refused, served or queued';
cmp_ok($queued, '>', 0, 'some requests queued');
cmp_ok(refused(429), '>', 10, 'some limited by limit_req');
is(scalar(grep { $_->{dsem_status} ne '' } $node->access_log), 0,
    'limit_req refusals take nothing');
eventually { refused(503) } 'some requests timed out';
my ($timeout) = grep { $_->done && $_->status == 503 } @requests;
is($node->logged($timeout)->{dsem_status}, 'TIMEOUT', 'refused by dsem');
is($up->now, $line->{limit}, 'limit never exceeded');
wait_for { $up->release_all; !grep { !$_->done } @requests } 15, 'the rest';
is($up->peak, $line->{limit}, 'peak is the limit');

# without nodelay the same number comes at its rate

wait_for { held() == 0 };
$up->reset;
my $slow = $t->node('n2', $conf =~ s/ nodelay//r);
my $begun = now;
@requests = map { $slow->begin('/api/?hang=1') } 1 .. $burst;
eventually { $up->now } 'first request served';
cmp_ok(held() + waiting(), '<=', 2 + 10 * (now - $begun),
    'delayed requests hold nothing');
eventually { $up->now > 3 } 'requests served one by one';
$_->close for @requests;

done_testing();

sub refused {
    my ($status) = @_;
    return scalar grep { $_->done && $_->status == $status } @requests;
}

sub held { $t->state->held('api') }
sub waiting { $t->state->waiting('api') }
