#!/usr/bin/perl

# A program holds a permit by its connection: it is told when it has it, and the
# end of the connection, however it ends, is the end of the hold. Where a name or
# a limit is empty there is none to be held, which a dry run passes. A body is read
# before the permit is asked for, also a chunked one.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
my $redis = $t->redis;

my $node = $t->node('a', <<'EOF_CONF');
worker_processes 2;
location /jobs {
    dsem jobs limit=2 queue=3 timeout=60s;
    dsem_hold interval=200ms;
}
location /named/ {
    dsem "job:$uri" limit=1 queue=3;
    dsem_hold;
}
location /empty {
    dsem $arg_name limit=$arg_limit;
    dsem_status 503 error=500;
    dsem_hold;
}
location /dry {
    dsem_dry_run on;
    dsem $arg_name limit=$arg_limit;
    dsem_hold;
}
location /slow {
    dsem slow limit=1;
    dsem_hold;
}
location /full {
    dsem full limit=1;
    dsem_hold;
    error_page 503 /jobs;
}
EOF_CONF

sub held { return $t->state->held('jobs') }
sub waiting { return $t->state->waiting('jobs') }

# what a holder reads

my $first = $node->ask('/jobs');
my $got = $first->read_until(qr/granted\n/);
like $got, qr{^HTTP/1.1 200 OK\r\n}, 'answered at once';
like $got, qr/^$_\r\n/mi, $_ for 'Content-Type: text/plain',
    'Cache-Control: no-store', 'X-Accel-Buffering: no', 'Dsem-Permit: jobs',
    'Connection: close';
unlike $first->read_until(qr/\n\r\n1\r\n\n\r\n1\r\n\n/), qr/[a-z]/,
    'empty lines follow';
is held(), 1, 'one permit held';

# all kinds of requests, and no condition of them

my $second = $node->ask('/jobs', 'If-Match' => 'x', -method => 'POST',
    -body => 'body', -version => '1.0');
like $second->read_until(qr/granted\n/), qr/\r\n\r\ngranted\n/, 'POST holds';

my @queued;
for my $n (1 .. 3) {
    push @queued, $node->ask('/jobs');
    eventually { waiting() == $n } "$n waiting";
}
is $queued[0]->read(0), '', 'nothing is answered yet';
is $node->get('/jobs')->status, 503, 'no place in the queue';
is $node->get('/jobs', -method => 'HEAD')->status, 503, 'HEAD has none either';

# without a name, or a limit, it must not say that anything is held

is $node->get("/empty?$_")->status, 500, "no permit with '$_'"
    for '', 'name=x', 'limit=1';
is scalar($node->grep_log(qr/\[error\].*no permit can be held/)), 3, 'and logged';
my $both = $node->ask('/empty?name=x&limit=1');
like $both->read_until(qr/granted\n/), qr/^Dsem-Permit: x\r\n/m,
    'granted with both';
$both->close;

for my $query ('', 'name=x&limit=x') {
    my $dry = $node->ask("/dry?$query");
    like $dry->read_until(qr/granted\n/), qr/granted/,
        "a dry run passes '$query'";
    $dry->close;
}
is scalar($node->grep_log(qr/no permit can be held/)), 3, 'nothing is refused';

# a request that is slow to send its body holds nothing

my @slow = map {
    my $raw = $node->raw;
    $raw->send("POST /slow HTTP/1.1\r\nHost: a\r\n$_\r\n\r\n");
    $raw;
} 'Content-Length: 1', 'Transfer-Encoding: chunked';
$redis->beats(2, 'both are there');
for ([ $node->ask('/slow'), '' ], [ $slow[0], 'x' ], [ $slow[1], "0\r\n\r\n" ])
{
    my ($holder, $body) = @$_;
    $holder->send($body) if $body;
    like $holder->read_until(qr/granted\n/), qr/granted/, 'granted';
    $holder->close;
    eventually { $t->state->held('slow') == 0 } 'and given back';
}

# FIN, RST and half of a FIN

$first->close;
like $queued[0]->read_until(qr/granted\n/), qr/granted/, 'closed: the next one';
$second->reset;
like $queued[1]->read_until(qr/granted\n/), qr/granted/, 'reset: the next one';
$queued[0]->shutdown;
like $queued[2]->read_until(qr/granted\n/), qr/granted/,
    'shut down: the next one';
is held(), 2, 'two held';

# how long it wants to wait

for (['wait=0', 'REJECTED'], ['respond-async, wait=0', 'REJECTED'],
    ['Wait=0', 'REJECTED'], ['wait=1', 'TIMEOUT'])
{
    my ($prefer, $status) = @$_;
    my $refused = $node->get('/jobs', Prefer => $prefer);
    is $refused->status, 503, "$prefer: refused";
    is $node->logged($refused)->{dsem_status}, $status,
        "$prefer: not queued, or queued for so long";
}
my $patient = $node->ask('/jobs', Prefer => 'wait=soon');
eventually { waiting() == 1 } 'nothing that can be read: waits';
$_->close for @queued, $patient;
eventually { !held() && !waiting() } 'all back';

for (qw(HEAD PUT)) {
    my $refused = $node->get('/jobs', -method => $_);
    is $refused->status, 405, "$_ holds nothing";
    is $refused->header('Allow'), 'GET, POST', "$_: others do";
}

# names of clients, and an error page that must not hold what it has not

my $named = $node->ask('/named/a%0ab');
like $named->read_until(qr/granted\n/), qr/^Dsem-Permit: job:\S*a%0ab\r$/mi,
    'name encoded';
my $full = $node->hold('/full');
is $node->get('/full')->status, 503, 'error page holds nothing';
$_->close for $named, $full;

# in the access log as any request

eventually {
    grep { $_->{request_uri} eq '/jobs' && $_->{dsem_status} eq 'QUEUED'
        && $_->{status} == 200 } $node->access_log;
} 'logged when it has ended';

$t->done;
