#!/usr/bin/perl

# The limit of a semaphore changes while requests wait. The lowest limit of both
# nodes applies to the whole fleet, also to waiting requests. Permits already
# granted stay valid.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
$t->redis;
my $up = $t->upstream;

my $conf = <<'EOF_CONF';
add_header X-Limit $dsem_limit always;
location /changing {
    dsem changing limit=2 queue=100 timeout=30s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

my ($one, $two) = $t->fleet(2, $conf);

my @all = map { $_->begin('/changing?hang=1') } $one, $two, $one, $two, $one;
eventually { state() eq '2 3 2' } 'two served, three queued';

# raised on one node: the other one still asks for two

$two->reload($conf =~ s/limit=2/limit=4/r);
push @all, $two->begin('/changing?hang=1');
eventually { state() eq '2 4 2' } 'limit unchanged';

# on both: applied with the next poll of the waiting requests

$one->reload($conf =~ s/limit=2/limit=4/r);
eventually { state() eq '4 2 4' && $up->now == 4 } 'two more served';

# lowered on one

$one->reload($conf =~ s/limit=2/limit=1/r);
push @all, $two->begin('/changing?hang=1');
eventually { state() eq '4 3 1' } 'limit lowered to one for both';
$up->release(3);
eventually { state() eq '1 3 1' && $up->now == 1 } 'no grant at the limit';
wait_for { $up->release(1); $up->served == @all } 10, 'all to be served';
is($_->wait->status, 200, 'request served') for @all;
is($all[-1]->header('X-Limit'), 1, 'lower limit reported');

is($up->peak, 4, 'highest limit never exceeded');

done_testing();

# permits held, tickets waiting, limit stored
sub state {
    return join ' ', $t->state->counts('changing'),
        $t->state->limit('changing');
}
