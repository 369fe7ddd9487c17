#!/usr/bin/perl

# A name with "limit=auto" may have a limit from a variable in another location,
# or be the value of a variable: then the number there counts. "auto" begins
# with 10, and that number is like any other.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
$t->redis;
my $up = $t->upstream;

my $node = $t->node('a', <<'EOF_CONF');
worker_processes 1;
location /auto {
    dsem api limit=auto;
    proxy_pass http://%%UPSTREAM%%;
}
location /limit {
    dsem api limit=$arg_limit;
    proxy_pass http://%%UPSTREAM%%;
}
location /name {
    dsem $arg_name limit=10;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

# Sends more requests than any limit here. Returns how many were served.
sub served {
    my ($path) = @_;
    my @running = map { $node->begin("$path&hang=1") } 1 .. 25;
    wait_for { $up->now + grep({ $_->done } @running) == 25 } 15,
        "$path: all decided";
    $up->release_all;
    my $served = grep { $_->wait->status == 200 } @running;
    wait_for { !$t->state->exists('api') } 15, "$path: all permits free";
    return $served;
}

wait_for { $t->state->lowest_limit('api') == 10 } 15, 'its limit';

# as if it had been found
my $found = $t->state->shard('limit:api') =~ s/^10=/20=/r;
$t->state->set_shard('limit:api', $found);

is served('/auto?'), 20, 'the number found';
is served('/limit?limit=9'), 9, 'the number of a variable';
is served('/limit?limit=10'), 10, 'the one that auto begins with';
is served('/name?name=api'), 10, 'the name of a variable';
is served('/auto?'), 20, 'the number found again';

$t->done;
