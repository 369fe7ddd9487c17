#!/usr/bin/perl

# The API shows permits in use and requests waiting by key, for the busiest
# keys of a semaphore, summed over the workers of the node. Keys are shown
# encoded, at most twenty, and disappear when they have nothing.

use Cpanel::JSON::XS;
use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $up = $t->upstream;

my $node = $t->node('n1', <<'EOF_CONF');
worker_processes 2;
server {
    # both workers have requests
    listen 127.0.0.1:%%PORT%% reuseport;
    location / {
        dsem api limit=3 queue=200 timeout=30s fair=$arg_k;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /plain {
        dsem plain limit=3 queue=100 timeout=30s;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /many {
        dsem many:$arg_s limit=3 queue=100 timeout=30s fair=$arg_k;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /dsem/ {
        dsem_api;
    }
}
EOF_CONF

sub keys_of {
    my ($name) = @_;
    my $answer = $node->get("/dsem/semaphores/$name");
    return undef if $answer->status != 200;
    return decode_json($answer->body)->{semaphore}{local}{keys};
}

sub shown {
    return join ', ', map { "$_->{key} $_->{in_use} $_->{waiting}" }
        @{ keys_of('api') // [] };
}

my @held = map { $node->begin("/?k=holder&hang=1&n=$_") } 1 .. 3;
wait_for { $up->now == 3 } 15, 'holders';
my @waiting = map { $node->begin("/?k=$_->[0]&hang=1&n=$_->[1]") }
    map { my $k = $_->[0]; map { [$k, $_] } 1 .. $_->[1] }
    ['a%20b', 5], ['', 2], ['last', 1];
@waiting = grep { $_ } @waiting;
wait_for { $t->state->waiting('api') == 8 } 15, 'queue';
eventually { shown() eq 'a%2520b 0 5, holder 3 0, ~ 0 2, last 0 1' }
    'keys with their figures' or diag shown();

# many keys: the busiest are shown

my @many = map { $node->begin("/?k=many$_&hang=1") } 1 .. 40;
wait_for { $t->state->waiting('api') == 48 } 15, 'many keys';
eventually { my $n = @{ keys_of('api') // [] }; $n >= 10 && $n <= 20 }
    'twenty at most';
# of each worker ten: what one of them has of a key may be missing
my ($waits, $holds) = ('a%2520b 0 [345]', 'holder [23] 0');
eventually { shown() =~ /^(?:$waits, $holds|$holds, $waits), / }
    'busiest keys first' or diag shown();

# some that came later, between others, and have most: of a worker's keys no ten
# in a row have all three

sub several {
    my ($key, $n) = @_;
    push @many, map { $node->begin("/?k=$key&hang=1&n=$_") } 1 .. $n;
}
several('late1', 30);
push @many, map { $node->begin("/?k=many$_&hang=1") } 41 .. 56;
several('late2', 27);
push @many, map { $node->begin("/?k=many$_&hang=1") } 57 .. 72;
several('late3', 24);
wait_for { $t->state->waiting('api') == 161 } 15, 'late keys';
eventually { shown() =~ /^late1 0 30, late2 0 27, late3 0 24, / }
    'the busiest came later' or diag shown();

# a semaphore without keys has none

my $plain = $node->begin('/plain?hang=1');
wait_for { $up->now == 4 } 15, 'a plain one';
eventually { my $keys = keys_of('plain'); $keys && !@$keys }
    'no keys without "fair"';

# more semaphores than there is memory for: the keys of some are not shown

my @names = map { "many:$_" } 1 .. 30;
my @one = map { $node->begin("/many?s=$_&k=one&hang=1") } 1 .. 30;
wait_for { $up->now == 34 } 15, 'many semaphores';
my $shown = 0;
eventually {
    $shown = grep { @{ keys_of($_) // [] } } @names;
    $shown >= 20 && $shown < 25;
} 'keys of some shown' or diag $shown;
$_->abort for @one;

$_->abort for @waiting, @many;
wait_for { $t->state->waiting('api') == 0 } 15, 'clients left';
eventually { shown() eq 'holder 3 0' } 'only the holder shown' or diag shown();
$up->release_all;
$_->wait for @held, $plain;
eventually { !@{ keys_of('api') // [] } } 'no key shown';

$t->done;
