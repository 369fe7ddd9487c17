#!/usr/bin/perl

# Messages about grants are hints. Every second message is lost, or all of them
# with the heartbeats, or the subscription is cut repeatedly. No request waits
# beside a free permit for longer than the poll interval.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Dsem::Test;

my $SECONDS = $ENV{DSEM_LONG} ? 20 : 1;
my $GRANT = '^\*3\r\n\$7\r\nmessage\r\n(?s:.*)\r\ngrant ';

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $up = $t->upstream(service => 0.020);
my $proxy = $t->proxy($redis->address);

my @fleet = $t->fleet(2, <<'EOF_CONF', REDIS => $proxy->address);
%%GLOBALS%%
worker_processes 2;
events { }
http {
    %%HTTP%%
    dsem_redis %%REDIS%%;
    dsem_node %%NODE%%;
    server {
        listen 127.0.0.1:%%PORT%%;
        location /waiting {
            dsem api limit=1 queue=100 timeout=10s;
            proxy_pass http://%%UPSTREAM%%;
        }
    }
}
EOF_CONF

# The longest time with a request waiting beside a free permit: as the
# clients and the upstream saw it, with no word from Redis or nginx. There is
# only one permit, for of two each may be free in its turn. The machine's own
# pauses do not count.
sub idle_while_waiting {
    my ($load) = @_;
    my %served = map { $_->{nonce} => $_ } $up->log;
    my @change;
    for my $asked (@{ $load->{records} }) {
        my $served = $served{ $asked->{nonce} } or next;
        push @change, [ $asked->{start}, 1, 0 ],
            [ $served->{start}, -1, 1 ], [ $served->{end}, 0, -1 ];
    }
    my ($waiting, $running, $since, $longest) = (0, 0, undef, 0);
    for (sort { $a->[0] <=> $b->[0] } @change) {
        my ($time, $more_waiting, $more_running) = @$_;
        my $idle = defined $since ? took($since, $time) : 0;
        $longest = $idle if $idle > $longest;
        $waiting += $more_waiting;
        $running += $more_running;
        $since = $waiting && !$running ? $since // $time : undef;
    }
    return $longest;
}

sub loaded {
    my ($name, $while, $enough) = @_;
    $up->reset;
    my $load = $t->load_start(urls => [ map { $_->url('/waiting') } @fleet ],
        clients => 5, seconds => 3600, records => 1);
    my $end = now + $SECONDS;
    $while->() while now < $end || $enough && !$enough->();
    my $result = $load->stop->wait;
    is_deeply [ keys %{ $result->{statuses} } ], [200], "$name: all served"
        or diag explain $result->{statuses};
    is $up->peak, 1, "$name: limit reached";
    my $longest = idle_while_waiting($result);
    cmp_ok $longest, '<', 1.5, "$name: waits bounded";
    note sprintf '%s: %.3f s, %d served', $name, $longest, $up->served;
    return $longest;
}

sub meanwhile {
    my $next = now + 0.1;
    wait_for { now >= $next } 1, 'a while';
}

# Without a message a request is served by the poll, a second after it asked.
$proxy->swallow(match => $GRANT);
my $holder = $fleet[0]->begin('/waiting?hang=1');
wait_for { $up->now == 1 } 15, 'permit out';
my $waiting = $fleet[1]->begin('/waiting');
wait_for { $t->state->waiting('api') == 1 } 15, 'one request queued';
$up->release(1);
is $_->wait->status, 200, 'one by one: served' for $holder, $waiting;
cmp_ok $waiting->latency, '>', 0.5, 'served by poll only';

loaded('all lost', \&meanwhile);

my $lost = $proxy->swallowed;
$proxy->swallow(match => $GRANT, every => 2);
loaded('half lost', \&meanwhile, sub { $proxy->swallowed > $lost + 2 });
cmp_ok $proxy->swallowed, '>', $lost + 2, 'messages really lost';

$proxy->swallow;
cmp_ok loaded('none lost', \&meanwhile), '<', 0.5, 'served by messages';

# a subscription without heartbeats is opened anew
if ($ENV{DSEM_LONG}) {
    $proxy->swallow(every => 1);
    loaded('beats lost', \&meanwhile);
}
$proxy->swallow;

loaded('cut', sub {
    $redis->cmd(qw(CLIENT KILL TYPE pubsub));
    meanwhile();
});

$t->done;
