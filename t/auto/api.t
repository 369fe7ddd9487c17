#!/usr/bin/perl

# The API, the metrics and the page have the limit that was found, why it is
# what it is, and how it got there.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Cpanel::JSON::XS qw(decode_json);

use Dsem::Test;

my $t = Dsem::Test->new;
$t->redis;
my $up = $t->upstream;

my $node = $t->node('a', <<'EOF_CONF');
%%GLOBALS%%
worker_processes 2;
events { }
http {
    %%HTTP%%
    dsem_redis %%REDIS%%;
    dsem_node %%NODE%%;
    server {
        listen 127.0.0.1:%%PORT%%;
        location /shown {
            dsem shown limit=auto min=4 max=14 queue=200 timeout=30s;
            proxy_pass http://%%UPSTREAM%%;
        }
        location /plain {
            dsem plain limit=3;
            proxy_pass http://%%UPSTREAM%%;
        }
        location /dsem/ { dsem_api; }
    }
}
EOF_CONF

# before any request that ended

my $first = $node->begin('/shown?hang=1');
wait_for { $up->now == 1 } 15, 'a request';
is $node->get('/plain')->status, 200, 'a plain limit';
is semaphore('shown')->{limit}, 10, 'the limit in force';
is semaphore('shown')->{auto}, undef, 'nothing is known yet';
$up->release_all;
is $first->wait->status, 200, 'request served';
my $auto;
eventually { $auto = semaphore('shown')->{auto} } 'known after a sample';
is_deeply [ @$auto{qw(min max found reason)} ], [4, 14, 10, 'starting'],
    'bounds, start, reason';
is_deeply [ @$auto{qw(floor latency)} ], [undef, undef], 'no latency yet';
is semaphore('plain')->{auto}, undef, 'a plain limit has nothing of it';

my $load = $t->load_start(clients => 40, seconds => 60,
    urls => [ $node->url('/shown?t=30') ]);
eventually {
    $auto = semaphore('shown')->{auto};
    ($auto->{reason} // '') eq 'bound' && $auto->{history}[-1]{limit} == 14
} 'at max', 30;
is $auto->{found}, 14, 'max found';
cmp_ok abs($auto->{floor} - 0.03), '<', 0.02, 'floor in seconds';
cmp_ok abs($auto->{latency} - 0.03), '<', 0.03, 'latency in seconds';
my @history = @{ $auto->{history} };
cmp_ok scalar(@history), '>=', 1, 'changes';
is $history[-1]{limit}, 14, 'the last one';
my $age = $history[0]{age};
ok $age > 0.02 && $age < 60, 'age in seconds' or diag $age;
is scalar(grep { $_->{limit} < 4 || $_->{limit} > 14 } @history), 0,
    'all within the bounds';
is_deeply [ map { $_->{age} } @history ],
    [ sort { $b <=> $a } map { $_->{age} } @history ], 'the oldest first';
is scalar(grep { $_->{reason} !~ /^(?:probing|latency|bound|not used)$/ }
    @history), 0, 'reasons';

# the limit is lowered for a moment now and then
my $metrics;
eventually {
    $metrics = $node->get('/dsem/metrics')->body;
    $metrics =~ /^dsem_auto_limit\{semaphore="shown"\} 14$/m
        && $metrics =~ /^dsem_auto_reason\{semaphore="shown",reason="bound"\} 1$/m
} 'limit and reason in the metrics';
like $metrics, qr/^dsem_auto_reason\{semaphore="shown",reason="errors"\} 0$/m,
    'no other one';
unlike $metrics, qr/^dsem_auto_\w+\{semaphore="plain"/m, 'nothing of the other';
$load->stop->wait;
eventually {
    $node->logged($node->get('/shown?t=1'))->{dsem_limit} == 14
} 'the number found in the log', 5;

$t->done;

sub semaphore {
    my ($name) = @_;
    return decode_json($node->get("/dsem/semaphores/$name")->body)->{semaphore};
}
