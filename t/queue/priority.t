#!/usr/bin/perl

# A lower class is served first, whatever the order of arrival. Inside a class,
# requests are served in order of arrival. Three nodes, classes from variables.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Dsem::Test;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $up = $t->upstream(service => 0.001);

# A worker serves its own next request while a reply is late, see order.t: Redis
# is far away.
my $proxy = $t->proxy($redis->address);
$proxy->delay(0.015, 's2c');

my @fleet = $t->fleet(3, <<'EOF_CONF', REDIS => $proxy->address);
%%GLOBALS%%
events { }
http {
    %%HTTP%%
    dsem_redis %%REDIS%%;
    dsem_node %%NODE%%;
    map $http_user $class {
        guest   7;
        staff   -8;
        default $arg_class;
    }
    server {
        listen 127.0.0.1:%%PORT%%;
        location /by_class {
            dsem classes limit=1 queue=100 priority=$class timeout=30s;
            proxy_pass http://%%UPSTREAM%%;
        }
        location /literal {
            dsem classes limit=1 queue=100 priority=-1 timeout=30s;
            proxy_pass http://%%UPSTREAM%%;
        }
    }
}
EOF_CONF

my @asked = (
    ['guest 1', '/by_class', User => 'guest'],
    ['none 1', '/by_class'],
    ['five 1', '/by_class?class=5'],
    ['staff 1', '/by_class', User => 'staff'],
    ['guest 2', '/by_class', User => 'guest'],
    ['minus one 1', '/literal'],
    ['none 2', '/by_class?class=0'],
    ['five 2', '/by_class?class=5'],
    ['minus one 2', '/by_class?class=-1'],
    ['staff 2', '/by_class', User => 'staff'],
    ['none 3', '/by_class?class='],
    ['guest 3', '/by_class', User => 'guest'],
);

my $round;
for my $attempt (1 .. 8) {
    $round = round();
    last if !$round->{canceled};
    note "attempt $attempt: replies were late";
}
is($round->{running}, 1, 'all requests queued');
is($_->status, 200, 'request served') for @{ $round->{requests} };
is_deeply([$up->order], [
    'holder', 'staff 1', 'staff 2', 'minus one 1', 'minus one 2',
    'none 1', 'none 2', 'none 3', 'five 1', 'five 2',
    'guest 1', 'guest 2', 'guest 3',
], 'by class, then arrival');
is($up->peak, 1, 'one at a time');

done_testing();

# All ask while one is served, and are served then.
sub round {
    $up->reset;
    my $holder = $fleet[0]->begin('/by_class?hang=1', 'X-Nonce' => 'holder');
    wait_for { $up->now == 1 };
    my @requests;
    for my $ask (@asked) {
        my ($nonce, $path, @header) = @$ask;
        push @requests, $fleet[ @requests % 3 ]->begin($path, @header,
            'X-Nonce' => $nonce);
        wait_for { waiting() == @requests };
    }
    my $running = $up->now;
    my $monitor = $t->client->raw('127.0.0.1', $redis->port);
    $monitor->send("MONITOR\r\n")->read_until(qr/OK/);
    $up->release_all;
    $_->wait for $holder, @requests;
    $redis->cmd('ECHO', 'the end');
    my $seen = $monitor->read_until(qr/the end/);
    return {
        running => $running, requests => [$holder, @requests],
        canceled => $t->state->canceled('classes', $seen),
    };
}

sub waiting { $t->state->waiting('classes') }
