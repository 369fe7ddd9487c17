#!/usr/bin/perl

# With "queue" from a variable permits are reused, whatever the values: a
# request whose value is 0 waits for the recall of a permit that is idle on
# another node, and is rejected where none is.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $up = $t->upstream;

my $conf = <<'EOF_CONF';
worker_processes 1;
dsem_reuse 60s;
add_header X-Dsem $dsem_status always;
location / {
    dsem api limit=4 queue=$arg_q timeout=30s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

my $keeps = $t->node('keeps', $conf);
my $asks = $t->node('asks', $conf);

sub held { return $t->state->held('api') }

wait_for { $t->state->session_count == 2 } 15, 'sessions open';

# a value of 0 on the way does not end reuse

eventually {
    my @two = map { $keeps->begin("/?hang=1&q=$_") } 0, 5;
    wait_for { $up->now == 2 } 15, 'two at the backend';
    $up->release_all;
    $_->wait for @two;
    held() == 2;
} 'two permits stay', 15;
is($keeps->get('/?q=0')->status, 200, 'permit used with queue 0');
is($keeps->get('/?q=5')->status, 200, 'permit used with queue 5');
is(held(), 2, 'permits kept again');

# the other node needs all four, none of its requests may wait for long

my @four = map { $asks->begin('/?hang=1&q=0') } 1 .. 4;
eventually { $up->now == 4 } 'all four requests served';
is(scalar(grep { $_->done } @four), 0, 'none rejected beside an idle permit');

# when none is idle any more, and no session may have one

wait_for {
    '0 0' eq join ' ', @{ $t->state->figures('api') }{qw(active recalled)}
} 15, 'all idle permits recalled';
is($keeps->get('/?q=0')->header('X-Dsem'), 'REJECTED', 'queue 0 rejected');
is($up->peak, 4, 'limit reached, never exceeded');
$up->release_all;
is($_->wait->status, 200, 'request served') for @four;

# a literal 0 elsewhere ends reuse for all directives of the name

$asks->quit;
$keeps->reload($conf =~ s{(location / )}
    {location /none { dsem api limit=4; proxy_pass http://%%UPSTREAM%%; } $1}r);
for my $i (1 .. 3) {
    is($keeps->get('/?q=5')->status, 200, 'served');
    eventually { held() == 0 } 'no permit stays';
}

$t->done;
