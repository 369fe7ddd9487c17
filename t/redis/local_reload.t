#!/usr/bin/perl

# A worker starts while Redis is unavailable, after a reload or a crash. The
# rest of its fleet may still hold all permits. It admits no request within the
# last lease of its node, and its share afterwards.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Dsem::Test;

my ($LIMIT, $SHARE, $LEASE) = (4, 2, 2);

my $t = Dsem::Test->new(lease => $LEASE);
my $redis = $t->redis;
my $up = $t->upstream;
my $proxy = $t->proxy($redis->address);

my ($new, $has) = $t->fleet(2, <<'EOF_CONF', REDIS => $proxy->address);
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    dsem_redis %%REDIS%%;
    dsem_redis_connect_timeout 200ms;
    dsem_redis_timeout 200ms;
    dsem_node %%NODE%%;
    dsem_lease 2s;
    server {
        listen 127.0.0.1:%%PORT%%;
        location /starts {
            dsem api limit=4 queue=20 timeout=20s;
            proxy_set_header X-Sem %%NODE%%;
            proxy_pass http://%%UPSTREAM%%;
        }
    }
}
EOF_CONF

sub round {
    my ($how, $renew) = @_;
    $up->reset;
    $redis->beats(4, 'each to have seen the other');
    my @long = map { $has->begin('/starts?t=1300') } 1 .. $LIMIT;
    eventually { $up->now == $LIMIT } "$how: all permits out";

    $proxy->refuse;
    $proxy->cut;
    my $gone = now;
    $renew->();
    my $load = $t->load_start(urls => [ $new->url('/starts?t=100') ],
        clients => 5, seconds => 20);
    is $_->wait->status, 200, "$how: running requests served" for @long;
    eventually { $up->now('n1') == $SHARE } "$how: share served in the end", 5;
    is $up->peak, $LIMIT, "$how: limit reached, never exceeded";
    my ($start) = map { $_->{start} } grep { $_->{sem} eq 'n1' } $up->log;
    cmp_ok $start - $gone, '>', $LEASE - 0.5,
        "$how: none admitted within lease";
    my $served = $up->served;
    wait_for { $up->served > $served + 10 } 15, 'the load to go on';
    is $up->peak('n1'), $SHARE, "$how: share kept";

    $proxy->refuse(0);
    my $result = $load->stop->wait;
    is_deeply [ keys %{ $result->{statuses} } ], [200],
        "$how: all requests served"
        or diag explain $result->{statuses};
    eventually { $t->state->session_count == 2 } "$how: only live sessions", 8;
    note sprintf '%s: after %.2f s', $how, $start - $gone;
}

round('reload', sub { $new->reload });
round('killed', sub {
    my ($old) = $new->kill_worker;
    wait_for { grep { $_ != $old } $new->workers } 15, 'the successor';
});

$t->done;
