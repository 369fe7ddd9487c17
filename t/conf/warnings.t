#!/usr/bin/perl

# Configurations that are valid, but hardly meant so: nginx -t warns, with the
# word at fault, and accepts them.

use lib 't/lib';
use Dsem::Test;

my $needs = 'needs "queue", without it no request waits for a permit';

my $unbuffered = 'proxy_request_buffering off; '
    . 'proxy_pass http://127.0.0.1:1;';
my $unread = 'values that are evaluated without the body, with '
    . '"proxy_request_buffering off" it is not read first';

my $grpc = 'grpc_pass 127.0.0.1:1;';
my $handler = 'values that are evaluated without the body, which is not read '
    . 'first for its handler';

my @cases = (
    ['dsem a limit=1 timeout=1s;',
        qq("timeout" parameter in "dsem" directive $needs)],
    ['dsem a limit=1 queue=0 priority=1;',
        qq("priority" parameter in "dsem" directive $needs)],
    ['dsem a limit=1 queue=5 timeout=1s priority=1;'],
    ['dsem a limit=1;'],
    ['dsem a limit=1 timeout=$arg_t;',
        qq("timeout" parameter in "dsem" directive $needs)],
    ['dsem a limit=1 queue=$arg_q timeout=1s priority=1;'],
    ['dsem a limit=1 queue=$arg_q timeout=2000;', '"timeout=2000" in "dsem" '
        . 'directive is more than five minutes'],
    ['dsem a limit=1 queue=1 timeout=2000;', '"timeout=2000" in "dsem" '
        . 'directive is more than five minutes, a time without a unit is in '
        . 'seconds'],
    ['dsem a limit=1 queue=1 timeout=5m;'],
    ['dsem a limit=1 queue=1 timeout=1h;'],
    ['dsem a limit=1 queue=$arg_q timeout=2000s;'],
    (map { ["dsem $_ limit=1;", qq(the first word "$_" of "dsem" directive )
            . 'is the name of a semaphore, not a parameter'] }
        'queue=100', 'fair=$arg_t', 'min=1', 'zone=api', 'name=api'),
    (map { ["dsem $_ limit=1;"] }
        'zone', 'a:queue=100', 'tenant=$arg_t', 'queues=1', '=queue'),
    ['dsem_lease 1s; dsem_redis_timeout 2s;',
        '"dsem_redis_timeout" is longer than "dsem_lease"'],
    ['dsem_lease 2s; dsem_redis_timeout 2s;'],
    ['dsem a limit=1 queue=101; dsem $arg_b limit=1 queue=102;',
        '"queue=102" in "dsem" directive of semaphore "$arg_b" is longer than '
        . 'the 100 connections of this node'],
    ['dsem a limit=1 queue=100;'],
    ['dsem a limit=1 queue=200;', undef, 'worker_processes 2;'],
    ['dsem a limit=1 queue=201;',
        '"queue=201" in "dsem" directive of semaphore "a" is longer than the '
        . '200 connections', 'worker_processes 2;'],
    ['dsem a limit=1 queue=101;',
        '"queue=101" in "dsem" directive of semaphore "a" is longer than the '
        . '100 connections', 'worker_processes 2; master_process off;'],
    (map {
        my ($line, $warning) = @$_;
        ["server { listen 127.0.0.1:%%PORT2%%; location /at { $line } }",
            $warning && qq("dsem" directive in location "/at" has $warning)];
    } ['dsem a limit=1 weight=$request_body; proxy_pass http://127.0.0.1:1;'],
        ["dsem a limit=1 weight=\$request_body; $unbuffered", $unread],
        ["dsem a limit=1 weight=5\${Request_Body}; $unbuffered", $unread],
        ["dsem a\$request_body_file limit=1; $unbuffered", $unread],
        ["dsem a limit=1 queue=1 fair=x\$request_body; $unbuffered", $unread],
        ["dsem a limit=1 weight=\$request_length; $unbuffered"],
        ["dsem_wait_body first; dsem a limit=1 weight=\$request_length; "
            . $unbuffered, $unread],
        ["dsem_wait_body first; dsem off; $unbuffered"],
        ["dsem_wait_body first; dsem a limit=1; $unbuffered"],
        ['dsem a limit=1 weight=$request_body; fastcgi_request_buffering off; '
            . 'fastcgi_pass 127.0.0.1:1;',
            $unread =~ s/proxy/fastcgi/r],
        ['dsem a limit=1 weight=$request_body; dsem_wait_body off; '
            . 'proxy_pass http://127.0.0.1:1;',
            '$request_body, which is empty with "dsem_wait_body off"'],
        ['dsem a limit=1 weight=$request_body; try_files /none @other;'],
        ["dsem a limit=1 weight=\$request_body; $grpc", $handler],
        ["dsem_wait_body first; dsem a\$arg_b limit=1; $grpc", $handler],
        ["dsem_wait_body first; dsem a limit=1; $grpc"],
        ['dsem a$request_body limit=1; empty_gif;', $handler],
        ["dsem a\$arg_b limit=1; $grpc"],
        ['dsem a$request_body limit=1; dsem_hold;']),
    [''],
);

my $t = Dsem::Test->new;

for (@cases) {
    my ($http, $warning, $main) = @$_;
    $main //= '';
    my ($status, $errors) = $t->test_conf(<<"EOF_CONF");
%%GLOBALS%%
$main
http {
    %%HTTP%%
    $http
    server {
        listen 127.0.0.1:%%PORT%%;
    }
}
# known late: a queue is compared with the connections of the node
events { worker_connections 100; }
EOF_CONF
    is $status, 0, "accepted: $main $http";
    if (defined $warning) {
        like $errors, qr/\[warn\] (?:\d+#\d+: )?\Q$warning\E/, 'warning printed';
    } else {
        unlike $errors, qr/\[warn\]/, 'no warning';
    }
}

# whatever the level of "error_log" is

my ($status, $errors) = $t->test_conf(<<"EOF_CONF");
@{[ Dsem::Node::Conf::load_module() ]}
error_log %%DIR%%/error.log error;
pid %%DIR%%/nginx.pid;
events { worker_connections 100; }
http {
    %%HTTP%%
    dsem a limit=1 queue=101;
}
EOF_CONF
is $status, 0, 'queue of a quiet log accepted';
like $errors, qr/\[warn\] .*"queue=101" in "dsem" directive/, 'warning printed';

# a Redis on each node would be a limit on each: no warning, but a notice

for (['dsem a limit=1;', 1], ['dsem off;', 0],
    ['dsem a limit=1; dsem_redis 127.0.0.1;', 0])
{
    my ($line, $noticed) = @$_;
    unlink $t->dir . '/conf/error.log';
    $t->test_conf(<<"EOF_CONF");
%%GLOBALS%%
events { }
http {
    %%HTTP%%
    $line
    server { listen 127.0.0.1:%%PORT%%; }
}
EOF_CONF
    open my $log, '<', $t->dir . '/conf/error.log' or die "error.log: $!";
    my @found = grep { m{\[notice\] .*no "dsem_redis" directive, permits are in redis 127\.0\.0\.1:6379 of this machine} }
        <$log>;
    is(scalar @found, $noticed, "noticed or not: $line");
}

$t->done;
