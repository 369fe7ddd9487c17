#!/usr/bin/perl

# A reload keeps the limit that was found, also with other bounds, and goes on
# from there. One with a lower "max" has it at once.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Dsem::Test;

my $t = Dsem::Test->new;
my $redis = $t->redis;
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
        location /reloaded {
            dsem api limit=auto max=100 queue=200 timeout=30s;
            proxy_pass http://%%UPSTREAM%%;
        }
    }
}
EOF_CONF

my $node = $t->node('a', $conf);
my %seen;

my $load = load();
eventually { limit() >= 18 } 'found', 30;
$load->stop->wait;

# without requests nothing but the new configuration can move it; until the last
# sample has been sent
my ($since, $last) = (now, '');
wait_for {
    my $text = $redis->cmd('HGET', $t->state->auto_key('api'), '.');
    ($since, $last) = (now, $text) if $text ne $last;
    now - $since > 1.5;
} 15, 'no samples';
my $found = limit();
$node->reload($conf =~ s/max=100/max=95/r);
wait_for { !$node->draining } 15, 'old workers to exit';
is limit(), $found, 'kept with other bounds';

$load = load();
wait_for { $up->now > 5 } 15, 'the load again';
%seen = ();
$node->reload($conf =~ s/max=100/max=90/r);
my $served = $up->served;
wait_for { limit(); $up->served > $served + 300 } 30, 'the load to go on';
my ($lowest) = sort { $a <=> $b } keys %seen;
cmp_ok $lowest, '>=', 9, 'does not begin anew';
eventually { limit() >= 16 } 'found again', 15;

$node->reload($conf =~ s/max=100/max=8/r);
eventually { limit() <= 8 } 'a lower max';
eventually { found() <= 8 } 'nothing above it is found';
wait_for { $up->now <= 8 } 15, 'drained to it';
$up->reset;
$served = $up->served;
wait_for { $up->served > $served + 150 } 30, 'the load to go on';
my $result = $load->stop->wait;
cmp_ok $up->peak, '<=', 8, 'max never exceeded';
is_deeply [ keys %{ $result->{statuses} } ], [200], 'all requests served'
    or diag explain $result->{statuses};

$t->done;

sub load {
    return $t->load_start(clients => 60, seconds => 90,
        urls => [ $node->url('/reloaded?t=40&knee=20') ]);
}

# the first field of what the rule keeps
sub found {
    return (split ' ',
        $redis->cmd('HGET', $t->state->auto_key('api'), '.') // '999')[0];
}

sub limit {
    my $limit = $t->state->lowest_limit('api');
    $seen{$limit}++;
    return $limit;
}
