#!/usr/bin/perl

# A request with an empty name or limit, or in a location with "off", is not
# limited: Redis is not asked, and the variables are empty.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $up = $t->upstream;

my $node = $t->node('n1', <<'EOF_CONF');
%%GLOBALS%%
events { }
http {
    %%HTTP%%
    dsem_redis %%REDIS%%;
    dsem_node %%NODE%%;
    add_header X-Status $dsem_status always;
    add_header X-Name $dsem_name always;
    add_header X-Wait $dsem_wait_time always;
    add_header X-Position $dsem_queue_position always;
    add_header X-Limit $dsem_limit always;
    add_header X-In-Use $dsem_in_use always;
    server {
        listen 127.0.0.1:%%PORT%%;
        location /by_arguments {
            dsem $arg_name limit=$arg_limit;
            proxy_pass http://%%UPSTREAM%%;
        }
        location /second_line {
            dsem $arg_name limit=1;
            dsem second limit=1;
            proxy_pass http://%%UPSTREAM%%;
        }
        location /off {
            dsem off;
            proxy_pass http://%%UPSTREAM%%;
        }
        location /nothing {
            proxy_pass http://%%UPSTREAM%%;
        }
    }
}
EOF_CONF

# for comparison: with name and limit it is limited

my $monitor = $t->client->raw('127.0.0.1', $redis->port);
$monitor->send("MONITOR\r\n")->read_until(qr/OK/);
my $first = $node->begin('/by_arguments?name=a&limit=1&hang=1');
wait_for { $up->now == 1 };
is($node->get('/by_arguments?name=a&limit=1')->status, 503, 'limited');
$redis->cmd('ECHO', 'limited');
my $key = $t->state->semaphore_key('');
like($monitor->read_until(qr/"limited"/), qr/"\Q$key\Ea"/, 'redis called');

my @paths = qw(
    /by_arguments?hang=1 /by_arguments?limit=1&hang=1
    /by_arguments?name=&limit=1&hang=1 /by_arguments?name=a&hang=1
    /by_arguments?name=a&limit=&hang=1 /off?hang=1 /nothing?hang=1
);
my @free = map { $node->begin($_) } @paths, @paths;
eventually { $up->now == 1 + @free } 'all served at once';
$redis->cmd('ECHO', 'not limited');
unlike($monitor->read_until(qr/"not limited"/), qr/\Q$key\E/,
    'redis not called');
$up->release_all;
for my $request (@free) {
    is($request->wait->status, 200, 'request served');
    is(scalar(grep { /^x-(?!nonce|started)/ } keys %{ $request->headers }), 0,
        'all variables empty');
    my $line = $node->logged($request);
    is(join('', @$line{ grep { /^dsem/ } keys %$line }), '',
        'status empty in log');
}
is($first->wait->header('X-Status'), 'PASSED', 'limited request served');

# an empty line does not cancel the others

my $second = $node->begin('/second_line?hang=1');
wait_for { $up->now == 1 };
my $refused = $node->get('/second_line');
is($refused->header('X-Status'), 'REJECTED', 'second line applied');
is($refused->header('X-Name'), 'second', 'second name reported');
$up->release_all;
is($second->wait->header('X-Name'), 'second', 'second name when passed');

done_testing();
