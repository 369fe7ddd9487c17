#!/usr/bin/perl

# Values from the body, by a map: of the first request of a location, too, and
# with a limit that is reached and never exceeded in weight. $request_body is
# whole in the access log and at the backend, with and without such values.

use lib 't/lib';
use Dsem::Test;

my $REQUESTS = $ENV{DSEM_LONG} ? 1000 : 90;
my $LIMIT = 12_000;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $up = $t->upstream;

my $node = $t->node('n1', <<'EOF_CONF');
worker_processes 1;
worker_connections 4096;
log_format body escape=json '$http_x_nonce:$request_body';
map $request_body $model {
    "~\"model\":\s*\"(?<name>[a-z0-9-]{1,40})\"" $name;
    default unknown;
}
map $request_body $tokens {
    "~\"max_tokens\"\s*:\s*(?<number>[0-9]{1,5})\b" $number;
    default 1;
}
# a map of a map
map $tokens $heavy {
    "~^[0-9]{4}" $tokens;
    default 1;
}
server {
    listen 127.0.0.1:%%PORT%%;
    access_log %%DIR%%/bodies.log body;
    add_header X-Dsem "$dsem_status $dsem_name" always;
    proxy_set_header X-Weight $tokens;
    proxy_set_header X-Sem $model;
    location /values {
        dsem "model:$model" limit=12000 weight=$heavy queue=2000
            timeout=5m;
        proxy_pass http://127.0.0.1:%%PORT2%%;
    }
    location /written {
        dsem "text:$request_body" limit=1 queue=10;
        proxy_pass http://127.0.0.1:%%PORT2%%;
    }
    location /without {
        dsem other limit=10 weight=$arg_w queue=2000 timeout=5m;
        proxy_pass http://127.0.0.1:%%PORT2%%;
    }
}
# what the backend gets
server {
    listen 127.0.0.1:%%PORT2%%;
    dsem off;
    access_log %%DIR%%/backend.log body;
    location / { proxy_pass http://%%UPSTREAM%%; }
}
EOF_CONF

my $n = 0;
my %sent;

# the very first request

my $first = post('/values?t=1', 'gpt-1', 4000);
is $first->wait->status, 200, 'first request served';
is $first->header('X-Dsem'), 'PASSED model:gpt-1', 'name from the body';
is +($up->log)[0]{weight}, 4000, 'weight from the body';

# up to the limit, in weight

my @held = map { post('/values?hang=1', 'gpt-1', 4000) } 1 .. 3;
wait_for { $up->now('gpt-1') == $LIMIT } 15, 'the limit';
my $waits = post('/values?hang=1', 'gpt-1', 4000);
wait_for { $t->state->waiting('model:gpt-1') == 1 } 15, 'one waits';
is $t->state->held('model:gpt-1'), $LIMIT, 'all permits in use';
my $other = post('/values?t=1', 'gpt-2', 4000);
is $other->wait->header('X-Dsem'), 'PASSED model:gpt-2', 'another model';
$up->release(1);
wait_for { $t->state->waiting('model:gpt-1') == 0 } 15, 'none waits';
wait_for { $up->release_all; !grep { !$_->done } @held, $waits } 15, 'the end';
is $_->status, 200, 'served' for @held, $waits;

# many

my @many;
for my $i (1 .. $REQUESTS) {
    push @many, post('/values?t=2', 'gpt-1', 4000);
    wait_for { 30 > grep { !$_->done } @many } 60, 'room' if $i % 10 == 0;
}
is scalar(grep { $_->wait->status == 200 } @many), $REQUESTS, 'all served';
is $up->peak('gpt-1'), $LIMIT, 'limit reached, never exceeded';

# written in the directive; and without a value from the body

my $written = post('/written?t=1', 'x', 1);
like $written->wait->header('X-Dsem'), qr/^PASSED text:%7B%22model/,
    'body in the name';
is post('/without?t=1&w=3', 'y', 1)->wait->header('X-Dsem'), 'PASSED other',
    'not from the body';

# whole, for all; nginx may wait for the end of a connection, and logs after it

$_->close for $first, @held, $waits, $other, @many, $written;

for my $log (qw(bodies backend)) {
    my %seen;
    wait_for { %seen = bodies($log); keys %seen == keys %sent } 15, $log;
    is_deeply \%seen, \%sent, "all bodies in $log.log";
}

$t->done;

sub post {
    my ($path, $model, $tokens) = @_;
    my $body = qq({"model": "$model", "text": "number ${\ ++$n}", )
        . qq("max_tokens": $tokens});
    $sent{"n$n"} = $body;
    return $node->begin($path, -method => 'POST', 'X-Nonce' => "n$n",
        -body => $body);
}

sub bodies {
    my ($name) = @_;
    open my $log, '<', $node->dir . "/$name.log" or return;
    return map { chomp; my ($nonce, $body) = split /:/, $_, 2;
        ($nonce, $body =~ s/\\"/"/gr) } <$log>;
}
