#!/usr/bin/perl

# A client abort during the response releases the permit at once, and the next
# request in the queue acquires it.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
$t->redis;
my $up = $t->upstream;

my @fleet = my ($one, $two) = $t->fleet(2, <<'EOF_CONF');
worker_processes 2;
worker_connections 1024;
location /serves {
    dsem serves limit=3 queue=500 timeout=60s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

my @held = map { $_->begin('/serves?hang=1') } $one, $one, $two;
eventually { $up->now == 3 } 'limit reached';

for my $way (qw(close abort)) {
    my $next = $two->begin('/serves?hang=1');
    wait_for { waiting() == 1 };
    my $leaver = shift @held;
    $leaver->$way;
    eventually { $up->started >= 4 && $up->now == 3 && waiting() == 0 }
        "next one served after $way", 3;
    is($one->logged($leaver)->{status}, 499, 'logged as 499');
    push @held, $next;
}

# in the middle of the response

my $next = $one->begin('/serves?hang=1');
wait_for { waiting() == 1 };
$up->release_all;
$_->wait for @held;
wait_for { $up->now == 1 };
my @streams = map { $two->begin('/serves?stream=1000&every=10') } 1, 2;
wait_for { $up->now == 3 };
wait_for { length $_->raw->read(0) } for @streams;
$streams[0]->close;
$streams[1]->abort;
eventually { held() == 1 } 'permits returned in mid-response', 3;
$up->release_all;
is($next->wait->status, 200, 'other request served');
eventually { held() == 0 } 'permit returned', 3;

# At any moment; a third stays, a third stays long enough to be served on a slow
# machine, and a few would be at the backend for ever.

$up->reset;
my ($n, @longest) = (0, undef, 0.12, 0.6);
my $result = $t->load(clients => 32, requests => 450,
    request => sub {
        my ($i) = @_;
        return $fleet[ $i % 2 ]->url($i % 100 ? '/serves?t=10'
            : '/serves?hang=1');
    },
    abort => sub {
        my $i = $n++;
        my $longest = $longest[ $i % 3 ];
        return $i % 100 ? $longest && rand $longest : 1;
    });
cmp_ok($result->{statuses}{200}, '>=', 140, 'requests of a third served');
cmp_ok($result->{statuses}{aborted}, '>=', 50, 'many requests aborted');
cmp_ok($up->aborted, '>=', 3, 'aborted requests at backend');
is($up->peak, 3, 'peak is the limit');
eventually { held() + waiting() == 0 } 'nothing left';

my @all = map { $fleet[ $_ % 2 ]->begin('/serves?hang=1') } 1 .. 3;
eventually { $up->now == 3 } 'all permits available';
$up->release_all;
is($_->wait->status, 200, 'request served') for @all;

done_testing();

sub held { $t->state->held('serves') }
sub waiting { $t->state->waiting('serves') }
