#!/usr/bin/perl

# A worker starts while Redis is unavailable, after a reload or a crash. The
# rest of its fleet may still hold all permits. It admits no request within the
# last lease of its node, and its share afterwards; also if the reload has another
# address of Redis, at which there is none yet.

use lib 't/lib';
use Dsem::Test;

my ($LIMIT, $SHARE, $LEASE) = (4, 2, 2);

my $t = Dsem::Test->new(lease => $LEASE);

my $conf = <<'EOF_CONF';
worker_processes 1;
dsem_redis_connect_timeout 200ms;
dsem_lease 2s;
location /starts {
    dsem api limit=4 queue=20 timeout=20s;
    proxy_set_header X-Sem %%NODE%%;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

# two nodes with a Redis of their own: all ways at the same time
sub pair {
    my ($how, $renew, $back) = @_;
    my $redis = $t->redis;
    my $proxy = $t->proxy($redis->address);
    my $up = $t->upstream;
    my ($new, $has) = map { $t->node("$how-$_", $conf,
        REDIS => $proxy->address, UPSTREAM => $up->address) } qw(new has);
    return { how => $how, renew => $renew, back => $back, redis => $redis, proxy => $proxy,
        up => $up, new => $new, has => $has };
}

sub full {
    my ($pair) = @_;
    my ($how, $up) = @$pair{qw(how up)};
    $pair->{long} = [ map { $pair->{has}->begin('/starts?t=1300') }
        1 .. $LIMIT ];
    eventually { $up->now == $LIMIT } "$how: all permits out";
}

sub loses {
    my ($pair) = @_;
    my ($how, $proxy, $new) = @$pair{qw(how proxy new)};
    $pair->{gone} = now;
    $proxy->refuse;
    $proxy->cut;
    $pair->{renew}->($new);
    $pair->{load} = $t->load_start(urls => [ $new->url('/starts?t=100') ],
        clients => 5, seconds => 60);
}

sub shares {
    my ($pair) = @_;
    my ($how, $up, $new) = @$pair{qw(how up new)};
    is $_->wait->status, 200, "$how: running requests served"
        for @{ $pair->{long} };
    eventually { $up->now($new->name) == $SHARE }
        "$how: share served in the end", 5;
    is $up->peak, $LIMIT, "$how: limit reached, never exceeded";
    my ($start) = map { $_->{start} } grep { $_->{sem} eq $new->name } $up->log;
    # the last reply to the node is a heartbeat older, or a little more
    cmp_ok $start - $pair->{gone}, '>', $LEASE - 0.5,
        "$how: none admitted within lease";
    note sprintf '%s: after %.2f s', $how, $start - $pair->{gone};
    $pair->{served} = $up->served;
}

sub shared {
    my ($pair) = @_;
    my ($how, $up, $new) = @$pair{qw(how up new)};
    wait_for { $up->served > $pair->{served} + 10 } 15, 'the load to go on';
    is $up->peak($new->name), $SHARE, "$how: share kept";
}

sub comes {
    my ($pair) = @_;
    $pair->{proxy}->refuse(0);
    $pair->{back}->($pair->{new}) if $pair->{back};
    $pair->{load}->stop;
}

sub returned {
    my ($pair) = @_;
    my $how = $pair->{how};
    my $result = $pair->{load}->wait;
    is_deeply [ keys %{ $result->{statuses} } ], [200],
        "$how: all requests served"
        or diag explain $result->{statuses};
    eventually { Dsem::State->new($pair->{redis})->session_count == 2 }
        "$how: only live sessions", 8;
}

my @pairs = (
    pair('reload', sub { $_[0]->reload }),
    pair('killed', sub {
        my ($new) = @_;
        my ($old) = $new->kill_worker;
        wait_for { grep { $_ != $old } $new->workers } 15, 'the successor';
    }),
    pair('address', sub { $_[0]->reload("${conf}dsem_redis 127.0.0.1:1;\n") },
        sub { $_[0]->reload($conf) }),
);
# each has seen the other
$pairs[0]{redis}->all_beat(2, map { $_->{redis} } @pairs[1 .. $#pairs]);
full($_) for @pairs;
loses($_) for @pairs;
shares($_) for @pairs;
shared($_) for @pairs;
comes($_) for @pairs;
returned($_) for @pairs;

$t->done;
