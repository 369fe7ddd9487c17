#!/usr/bin/perl

# While permits pass from request to request, the worker still asks Redis once
# per dsem_reuse. An operator's order and a lower limit therefore apply
# although no request sends a command.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
$t->redis;
my $up = $t->upstream;

my $node = $t->node('a', <<'EOF_CONF');
worker_processes 1;
location / {
    dsem api limit=8 queue=100 timeout=20s;
    dsem_reuse 300ms;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

sub order { $t->state->order('api', $_[0]) }

sub state { return $t->state->figure('api', $_[0]) }

# requests without a break, which hardly ever ask

my $load = $t->load_start(urls => [$node->url('/?t=5')], clients => 4,
    seconds => 60, keepalive => 1);
wait_for { $up->served > 50 } 15, 'the load';

order('- 1');
eventually { state('waiting') == 4 && state('held') == 0 }
    'paused: all queued', 5;
order('- 0');
eventually { state('waiting') == 0 } 'resumed: requests served', 5;

order('1 0');
eventually { state('waiting') == 3 && state('held') == 1 }
    'lower limit: others queued', 5;
$up->reset;
wait_for { $up->served > 20 } 15, 'one at a time';
is($up->peak, 1, 'lower limit kept');
$t->state->drop_orders;
eventually { $up->peak == 4 } 'no order: all at once again', 5;
my $served = $up->served;
wait_for { $up->served > $served + 100 } 15, 'the load to go on';

my $result = $load->stop->wait;
is_deeply([keys %{ $result->{statuses} }], [200], 'no request refused');

$t->done;
