#!/usr/bin/perl

# A variable limit, weight, priority, queue, timeout or share that is not a
# number or time in range: the request is rejected as ERROR. One log line shows the value, and the value
# cannot forge it. Redis is not asked.

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
    large_client_header_buffers 4 32k;
    dsem_redis %%REDIS%%;
    dsem_node %%NODE%%;
    proxy_pass_request_headers off;
    add_header X-Dsem "$dsem_status $dsem_name" always;
    server {
        listen 127.0.0.1:%%PORT%%;
        # decoded, with any bytes
        location ~ "(?s)^/limit/(?<limit>.*)$" {
            dsem capped limit=$limit;
            proxy_pass http://%%UPSTREAM%%;
        }
        location ~ "(?s)^/weight/(?<weight>.*)$" {
            dsem capped limit=1000000000 weight=$weight;
            proxy_pass http://%%UPSTREAM%%;
        }
        location ~ "(?s)^/priority/(?<priority>.*)$" {
            dsem capped limit=1000000000 priority=$priority;
            proxy_pass http://%%UPSTREAM%%;
        }
        location ~ "(?s)^/queue/(?<queue>.*)$" {
            dsem capped limit=1000000000 queue=$queue;
            proxy_pass http://%%UPSTREAM%%;
        }
        location ~ "(?s)^/timeout/(?<timeout>.*)$" {
            dsem capped limit=1000000000 queue=1 timeout=$timeout;
            proxy_pass http://%%UPSTREAM%%;
        }
        location ~ "(?s)^/share/(?<share>.*)$" {
            dsem capped limit=1000000000 queue=1 fair=$arg_k share=$share;
            proxy_pass http://%%UPSTREAM%%;
        }
        location /second {
            dsem before limit=10;
            dsem capped limit=$http_limit;
            proxy_pass http://%%UPSTREAM%%;
        }
    }
}
EOF_CONF

# valid numbers, to the ends of the ranges

my %good = (
    limit => [qw(1 7 007 1000000000)],
    weight => [qw(1 1000000000), ''],
    priority => [qw(-8 -1 0 -0 7), ''],
    queue => [qw(0 -0 1 1000000000 auto), ''],
    timeout => [qw(5 20s 1m30s 30000ms 2147483647ms 24d), ''],
    share => [qw(1 1000), ''],
);
for my $what (sort keys %good) {
    is($node->get("/$what/$_")->header('X-Dsem'), 'PASSED capped',
        "$what '$_'") for @{ $good{$what} };
}
is(scalar $node->grep_log(qr/\[error\]/), 0, 'no complaint');
# it may be over before Redis has replied
like($node->get('/timeout/1ms')->header('X-Dsem'),
    qr/^(?:PASSED|TIMEOUT) capped$/, 'shortest timeout');

# invalid values, and their form in the log

my @nowhere = (
    ['many', 'many'], ['1x', '1x'], ['x1', 'x1'], ['1.5', '1.5'],
    ['1e3', '1e3'], ['0x10', '0x10'], ['+1', '%2B1'], ['--1', '--1'],
    ['-', '-'], ['%20', '%20'], ['1%20', '1%20'], ['%201', '%201'],
    ['1%202', '1%202'], ['1%0a', '1%0A'],
    ['99999999999999999999', '99999999999999999999'],
    ['-99999999999999999999', '-99999999999999999999'],
    ['9223372036854775808', '9223372036854775808'],
    ['1%0d%0a2026/01/01%2000:00:00%20%5balert%5d%201%23:%20forged',
        '1%0D%0A2026%2F01%2F01%2000:00:00%20%5Balert%5D%201%23:%20forged'],
    ['%22%20of%20%22x', '%22%20of%20%22x'],
    ['%25V%25s%25n', '%25V%25s%25n'],
);
my %bad = (
    limit => [@nowhere, ['auto', 'auto'], ['-1', '-1'],
        ['1000000001', '1000000001']],
    weight => [@nowhere, ['0', '0'], ['-1', '-1'],
        ['1000000001', '1000000001']],
    priority => [@nowhere, ['8', '8'], ['-9', '-9']],
    queue => [@nowhere, ['-1', '-1'], ['1000000001', '1000000001']],
    # nginx allows blanks between the parts of a time
    timeout => [(grep { $_->[0] !~ /^1?%20/ } @nowhere), ['0', '0'],
        ['0ms', '0ms'], ['-1', '-1'], ['2147483648ms', '2147483648ms'],
        ['25d', '25d'], ['200us', '200us'], ['1s%202m', '1s%202m']],
    share => [@nowhere, ['0', '0'], ['1001', '1001'], ['-1', '-1']],
);
my %range = (
    limit => 'number between 0 and 1000000000',
    weight => 'number between 1 and 1000000000',
    priority => 'number between -8 and 7',
    queue => 'number between 0 and 1000000000',
    timeout => 'time between 1ms and 2147483647ms',
    share => 'number between 1 and 1000',
);
$up->reset;
for my $what (sort keys %bad) {
    for my $case (@{ $bad{$what} }) {
        my ($value, $shown) = @$case;
        $node->clear_logs;
        my $request = $node->get("/$what/$value");
        is($request->status, 503, "$what '$value' refused");
        is($request->header('X-Dsem'), 'ERROR capped', 'status is ERROR');
        is($node->logged($request)->{dsem_status}, 'ERROR',
            'ERROR in access log');
        my @lines = split /\n/, $node->error_log;
        my @ours = grep { / dsem/ } @lines;
        is(scalar @ours, 1, 'one line');
        like($ours[0], qr/^\S+\ \S+\ \[error\]\ [^"]*"\Q$shown\E"
            .*\ client:\ 127/x, 'value shown');
        like($ours[0], qr/"$what" of semaphore "capped" is not a $range{$what}, /,
            'parameter and range');
        is(scalar(grep { !m{^2\d\d\d/\d\d/\d\d .*\[\w+\] \d+#} } @lines), 0,
            'no line forged');
    }
}

# a long value is shortened

$node->clear_logs;
my $long = $node->get('/limit/' . '9' x 8000);
is($long->header('X-Dsem'), 'ERROR capped', 'long value refused');
my ($line) = $node->grep_log(qr/\[error\]/);
like($line, qr/"9{64}~[0-9a-f]{40}"/, 'long value shortened');

# one line of two

is($node->get('/second', Limit => 'x')->header('X-Dsem'), 'ERROR capped',
    'second line rejects');
is($up->started, 0, 'no request at backend');
eventually { !grep { /:[sq]:/ } @{ $redis->cmd('KEYS', '*') } }
    'no keys in redis';

done_testing();
