#!/usr/bin/perl

# Recipe "An LLM gateway": model and tokens come from the body, the tokens of
# all completions of a model are limited, keys share them fairly, and a
# rejected request gets 429 with Retry-After.

use lib 't/lib', 't/run';
use Dsem::Clock;
use Dsem::Recipe;
use Dsem::Test;
use Fleet::Conf;

# a busy machine needs longer to send all requests
my $recipe = recipe('An LLM gateway', 'timeout=20s' => 'timeout=5m');
my $llm = Fleet::Conf::semaphore($recipe, '"llm:$model"');
my %key = reverse $recipe =~ /^ +"Bearer (\w+)" +(\w+);/mg;

my $t = Dsem::Test->new;
my $clock = Dsem::Clock->new($t, monotonic => 1);
$t->redis;
my $up = $t->upstream;

my @fleet = $clock->fleet(2, <<'EOF_CONF' =~ s/%%RECIPE%%/$recipe/r);
%%GLOBALS%%
worker_processes 1;
events { worker_connections 1024; }
http {
    %%HTTP%%
    dsem_redis %%REDIS%%;
    dsem_node %%NODE%%;
    # no more may wait for permits that the other node may have idle
    dsem_reuse off;
    dsem_log_level info;
    # for the test: the backend has them in the body
    proxy_set_header X-Weight $tokens;
    proxy_set_header X-Sem $model;
    log_format body escape=json '$http_x_nonce $request_body';
    access_log %%DIR%%/bodies.log body;
    upstream backend {
        server %%UPSTREAM%%;
    }
    %%RECIPE%%
}
EOF_CONF

# the weight, from bodies of many forms

my $n = 0;
for my $case (
    ['"max_tokens": 1', 1], ['"max_tokens":9999', 9999],
    [qq("max_tokens":\n\t 250\n), 250], ['"max_tokens": 10000', 10000],
    ['"max_tokens" : 9998', 9998], [qq("max_tokens"\n:\t77), 77],
    ['"max_tokens": 40000', 40000], ['"max_tokens": 0', 4000],
    ['"max_tokens": "5"', 4000], ['"max_tokens": -5', 4000],
    ['"max_tokens": 1e5', 4000], ['"max_tokens": 1.5e5', 4000],
    ['"max_tokens": 1000000000', 4000], ['"other": 5', 4000],
    ['"text": "\\"max_tokens\\": 5", "max_tokens": 77', 77],
    ['"max_tokens": 5, "text": "' . 'x' x 500_000 . '"', 5])
{
    my ($member, $weight) = @$case;
    is(post('acme', "{$member}", 't=1')->wait->status, 200, 'served');
    is(+($up->log)[-1]{weight}, $weight, 'weight ' . substr $member, 0, 40);
}
for my $model ('"model":"large"', '"model" : "large"', qq("model"\n:\t"large")) {
    is(post('acme', "{$model}", 't=1')->wait->status, 200, 'served');
    is(+($up->log)[-1]{sem}, 'large', 'the other model');
}
is(post('acme', 'x' x 1_100_000, 't=1')->wait->status, 413, 'too large');
for my $tokens (40001, 999_999_999) {
    is(post('acme', qq({"max_tokens": $tokens}), 't=1')->wait->status, 429,
        "$tokens tokens rejected");
}

# the limit in tokens is reached, and the models do not share it

$up->reset;
my $most = $llm->{limit} / 4000;
my @held = map { completion('acme') } 1 .. $most;
wait_for { $up->now('small') == $llm->{limit} } 15, 'all tokens in use';
is(post('acme', '{"model": "large", "max_tokens": 9999}', 't=1')
    ->wait->status, 200, 'the other model is free');

wait_for { $t->state->subscribed == 2 } 15, 'all to be told of grants';
# a worker serves its own next request while a reply is late: none ever is
$clock->stop;

# a key that fills the queue, and one that comes later

my @queue = map { completion('acme') } 1 .. $llm->{queue};
eventually { $t->state->waiting('llm:small') == $llm->{queue} } 'queue full';
my $rejected = post('acme', body(), 'hang=1')->wait;
is($rejected->status, 429, 'rejected with 429');
like($rejected->header('Retry-After'), qr/^[1-9]\d*$/, 'Retry-After');
my @other = map { completion('globex') } 1 .. 3;
eventually { 3 == grep { $_->done && $_->status == 429 } @queue }
    'requests of the noisy key rejected';
for (1 .. 8) {
    my $started = $up->started;
    $up->release(1);
    wait_for { $up->started > $started } 15, 'the next one';
}
$clock->go;
my $served = grep { $_->{uri} =~ /globex/ } $up->log;
is($served, 3, 'other key served within eight');
is($up->now('small'), $llm->{limit}, 'all tokens in use');

wait_for { $up->release_all; !grep { !$_->done } @held, @queue, @other } 30,
    'the rest';
is(scalar(grep { $_->status == 200 } @held, @queue, @other),
    @held + @queue, 'all others served');
is($up->peak('small'), $llm->{limit}, 'limit reached, never exceeded');
# else nginx waits for more of their bodies, in vain
$_->close for @held, @queue, @other, $rejected;

done_testing();

sub body { return '{"model": "small", "max_tokens": 4000, "n": ' . ++$n . '}' }

sub completion { return post($_[0], body(), 'hang=1') }

sub post {
    my ($tenant, $body, $args) = @_;
    return $fleet[ ++$n % 2 ]->begin("/v1/?$args&$tenant",
        -method => 'POST', -body => $body,
        Authorization => "Bearer $key{$tenant}");
}
