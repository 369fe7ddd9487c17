#!/usr/bin/perl

# An operator's order is in force instead of the limit that was found, at once
# and until it ends; meanwhile nothing is learned, and afterwards the limit that
# was found before counts again.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Dsem::Test;

my $t = Dsem::Test->new;
$t->redis;
my $up = $t->upstream;

my $conf = <<'EOF_CONF';
%%GLOBALS%%
worker_processes 2;
events { }
http {
    %%HTTP%%
    dsem_redis %%REDIS%%;
    dsem_node %%NODE%%;
    server {
        listen 127.0.0.1:%%PORT%%;
        location /ordered {
            dsem api limit=auto max=100 queue=200 timeout=30s;
            proxy_pass http://%%UPSTREAM%%;
        }
    }
}
EOF_CONF

$conf =~ s{(    server \{\n.*\n)}{$1        location /dsem/ { dsem_api write=on; }\n};
my $node = $t->node('a', $conf);

my $load = load();
eventually { found() >= 16 } 'found', 30;
patch('{"limit":3}');
wait_for { $up->now <= 3 } 15, 'drained to the order';
my $found = found();
$up->reset;
my $served = $up->served;
wait_for { $up->served > $served + 200 } 30, 'the load to go on';
is $up->peak, 3, 'the order reached, never exceeded';
is found(), $found, 'nothing learned meanwhile';

# above what was found
patch('{"limit":40}');
eventually { $up->now == 40 } 'a higher order holds';

$up->reset;
patch('{"limit":null}');
eventually { $up->now <= 30 && $up->now > 8 } 'the found limit again';
$load->stop->wait;

$t->done;

sub load {
    return $t->load_start(clients => 60, seconds => 90,
        urls => [ $node->url('/ordered?t=50&knee=20') ]);
}

sub patch {
    my ($body) = @_;
    my $reply = $node->get('/dsem/semaphores/api', -method => 'PATCH',
        -body => $body, 'Content-Type' => 'application/json');
    is $reply->status, 200, "PATCH $body" or diag $reply->body;
}

sub found { return $t->state->lowest_limit('api') }
