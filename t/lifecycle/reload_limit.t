#!/usr/bin/perl

# A reload halves the limit under load. Once the old workers are exiting,
# the first ask with the new limit decides: nothing is granted above it,
# whatever the old workers hold and ask for.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Dsem::Test;

my $t = Dsem::Test->new;
$t->redis;
my $up = $t->upstream(service => 0.100);

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
        location /lowered {
            dsem api limit=20 queue=200 timeout=10s;
            proxy_pass http://%%UPSTREAM%%;
        }
    }
}
EOF_CONF

my $node = $t->node('a', $conf);

# grants travel for a moment, longer where the machine has something else to
# do: a round without late grants suffices
my (@late, @raised);
for my $round (1 .. 5) {
    $node->reload($conf) if $round > 1;
    $_->close for @late;
    # the remaining requests arrive when their worker is exiting
    @late = map { $node->raw->send("GET /lowered?t=1 HTTP/1.0\r\n") } 1, 2;
    @raised = lowered();
    last if !@raised;
}
is scalar(@raised), 0, 'no grant above the new limit' or diag "@raised";

# an old worker's ask does not bring the old limit back

my @running = map { $node->begin('/lowered?hang=1') } 1 .. 10;
eventually { $up->now == 10 } 'all permits out';
ok scalar($node->draining), 'old worker still there';
$_->send("\r\n") for @late;
eventually { $t->state->waiting('api') == 2 } 'late requests queued';
is $t->state->limit('api'), 10, 'limit stays';
is $up->now, 10, 'limit kept';
$up->release_all;
like $_->read_eof, qr/ 200 /, 'late request served' for @late;
is $_->wait->status, 200, 'request served' for @running;

$t->done;

# Lowers the limit under load; when the upstream still had more than before,
# above the new limit.
sub lowered {
    $up->reset;
    my $load = $t->load_start(urls => [ $node->url('/lowered') ],
        clients => 60, seconds => 60);
    wait_for { $up->now == 20 } 15, 'load at the old limit';

    $node->reload($conf =~ s/limit=20/limit=10/r);
    wait_for { $t->state->limit('api') == 10 } 15,
        'the first ask with the new limit';
    my $lowered = now;
    my $served = $up->served;
    wait_for { $up->served > $served + 200 } 15, 'the load to go on';
    my $result = $load->stop->wait;

    # requests admitted before the reload run to their end
    my @levels = $up->levels;
    is $up->peak, 20, 'old limit reached, never exceeded';
    my ($low) = sort { $b <=> $a } map { $_->[1] }
        grep { $_->[0] > $lowered + 1 } @levels;
    is $low, 10, 'new limit reached';
    is_deeply [ keys %{ $result->{statuses} } ], [200], 'no request lost'
        or diag explain $result->{statuses};
    return map { $levels[$_][0] - $lowered } grep {
        $levels[$_][0] > $lowered + 0.02 && $levels[$_][1] > 10
            && $levels[$_][1] > $levels[ $_ - 1 ][1]
    } 1 .. $#levels;
}
