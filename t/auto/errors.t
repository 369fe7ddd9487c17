#!/usr/bin/perl

# A backend rejects what is beyond fifteen requests at once. Its errors are
# fast: no latency tells that there are too many. The limit is lowered because
# of them, and few requests fail in the end.

use lib 't/lib';
use Cpanel::JSON::XS qw(decode_json);

use Dsem::Test;

my $t = Dsem::Test->new;
$t->redis;
my $up = $t->upstream;

my $node = $t->node('a', <<'EOF_CONF');
worker_processes 2;
location /failing {
    dsem api limit=auto max=100 queue=200 timeout=30s;
    proxy_pass http://%%UPSTREAM%%;
}
location /dsem/ { dsem_api; }
EOF_CONF

wait_for { $t->state->session_count == 2 && limit() } 15, 'both sessions';
$t->state->set_found('api', 20);
my $load = $t->load_start(clients => 60, seconds => 600, records => 1,
    urls => [ $node->url('/failing?t=50&cliff=15') ]);

eventually { $up->peak > 15 } 'a limit that is too high';
eventually { below() } 'lowered, and kept there', 30;
my $from = now;
my $served = $up->served;
# a higher limit is tried at times: its requests fail at once, so many
wait_for { $up->served > $served + 1000 } 60, 'the load to go on';
my $auto = decode_json($node->get('/dsem/semaphores/api')->body)
    ->{semaphore}{auto};
ok +(grep { $_->{reason} eq 'errors' } @{ $auto->{history} }),
    'lowered because of errors' or diag explain $auto;
my $until = now;
my $result = $load->stop->wait;

# one that fails takes no time, and clients try again at once: in numbers they
# can be more than those that are served, of which 300 are possible in a second
my @last = grep { $_->{start} > $from } @{ $result->{records} };
my $good = grep { $_->{status} eq '200' } @last;
cmp_ok scalar(@last), '>', 200, 'requests after that';
cmp_ok $good, '>', 100 * took($from, $until), 'many of them served';

$t->done;

# It does not move any more: a rise takes no more than a hundred requests.
sub below {
    my ($limit, $served, $moved) = (limit(), $up->served);
    wait_for {
        $moved = limit() != $limit;
        $moved || $up->served > $served + 200;
    } 30, 'the load to go on';
    return !$moved && $limit <= 15;
}

sub limit { return $t->state->lowest_limit('api') }
