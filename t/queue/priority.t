#!/usr/bin/perl

# A lower class is served first, whatever the order of arrival. Inside a class,
# requests are served in order of arrival. Three nodes, classes from variables.

use lib 't/lib';
use Dsem::Clock;
use Dsem::Test;

my $t = Dsem::Test->new;
$t->redis;
my $up = $t->upstream(service => 0.001);
my $clock = Dsem::Clock->new($t, monotonic => 1);

my @fleet = $clock->fleet(3, <<'EOF_CONF');
dsem_lease 10m;
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

# a worker serves its own next request while a reply is late: none ever is

wait_for { $t->state->subscribed == 3 } 15, 'all to be told of grants';
$clock->stop;

my $holder = $fleet[0]->begin('/by_class?hang=1', 'X-Nonce' => 'holder');
wait_for { $up->now == 1 };
my @requests;
for my $ask (@asked) {
    my ($nonce, $path, @header) = @$ask;
    push @requests, $fleet[ @requests % 3 ]->begin($path, @header,
        'X-Nonce' => $nonce);
    wait_for { $t->state->waiting('classes') == @requests };
}
is($up->now, 1, 'all requests queued');
$up->release_all;
is($_->wait->status, 200, 'request served') for $holder, @requests;
is_deeply([$up->order], [
    'holder', 'staff 1', 'staff 2', 'minus one 1', 'minus one 2',
    'none 1', 'none 2', 'none 3', 'five 1', 'five 2',
    'guest 1', 'guest 2', 'guest 3',
], 'by class, then arrival');
is($up->peak, 1, 'one at a time');

$clock->go;
done_testing();
