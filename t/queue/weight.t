#!/usr/bin/perl

# Permits are counted by weight: the sum at the backend reaches the limit and
# never exceeds it. A lighter request does not overtake the head of the queue,
# even where the lighter one would fit.

use lib 't/lib';
use Dsem::Test;

my $REQUESTS = $ENV{DSEM_LONG} ? 5000 : 250;

my $t = Dsem::Test->new;
$t->redis;
my $up = $t->upstream;

my @fleet = $t->fleet(3, <<'EOF_CONF');
worker_processes 2;
worker_connections 1024;
map $arg_size $weight {
    small   1;
    large   5;
    huge    11;
    default $arg_w;
}
add_header X-Dsem $dsem_status always;
add_header X-Dsem-In-Use $dsem_in_use always;
server {
    listen 127.0.0.1:%%PORT%%;
    location /weighed {
        dsem weighed limit=10 queue=500 weight=$weight timeout=30s;
        proxy_set_header X-Weight $weight;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /literal {
        dsem weighed limit=10 weight=8;
        proxy_set_header X-Weight 8;
        proxy_pass http://%%UPSTREAM%%;
    }
}
EOF_CONF

# a mixture

my $load = $t->load(clients => 60, requests => $REQUESTS,
    request => sub {
        my ($i) = @_;
        my $weight = 1 + $i * 7 % 10;
        return $fleet[ $i % 3 ]->url("/weighed?t=5&w=$weight");
    });
is_deeply($load->{statuses}, { 200 => $REQUESTS }, 'all requests served');
is($up->peak, 10, 'weights reach the limit');
my %by_weight;
$by_weight{ $_->{weight} }++ for $up->log;
is(scalar keys %by_weight, 10, 'all weights seen');
eventually { held() == 0 } 'all permits returned';

# one by one

$up->reset;
my ($one, $two, $three) = @fleet;
my $holder = $one->begin('/literal?hang=1', 'X-Nonce' => 'holder');
eventually { $up->now == 8 } 'literal weight taken';
is(held(), 8, 'eight of ten used');

my $heavy = $two->begin('/weighed?w=10&hang=1', 'X-Nonce' => 'heavy');
eventually { waiting() == 1 } 'heavy request queued';
my $light = $three->begin('/weighed?hang=1', 'X-Nonce' => 'light');
eventually { waiting() == 2 } 'light request queued behind';
is($one->get('/literal')->header('X-Dsem'), 'REJECTED',
    'third request rejected');
is($up->now, 8, 'two permits free');

$up->release(1);
is($holder->wait->status, 200, 'holder served');
eventually { $up->now == 10 && waiting() == 1 } 'heavy served before light';
$up->release(1);
is($heavy->wait->status, 200, 'heavy request served');
eventually { $up->now == 1 } 'light request served next';
is_deeply([$up->order], [qw(holder heavy light)], 'arrival order kept');

my $fits = $one->begin('/weighed?size=large&hang=1');
eventually { $up->now == 6 } 'free permits used';
eventually { held() == 6 } 'weights add up';

my $huge = $two->get('/weighed?size=huge');
is($huge->status, 503, 'heavy request rejected');
is($huge->header('X-Dsem'), 'REJECTED', 'status is REJECTED');
cmp_ok($huge->took, '<', 15, 'rejected at once');

$up->release_all;
is($_->wait->status, 200, 'request served') for $light, $fits;
is($fits->header('X-Dsem-In-Use'), 6, 'in_use counts weight');
cmp_ok($up->peak, '<=', 10, 'limit never exceeded');

done_testing();

sub held { $t->state->held('weighed') }
sub waiting { $t->state->waiting('weighed') }
