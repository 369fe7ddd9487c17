#!/usr/bin/perl

# Valid configurations: every directive in each of its contexts, every form of
# an address, the ends of every range, and combinations that look like
# forbidden ones.

###############################################################################

use lib 't/lib';
use Dsem::Test;

###############################################################################

my @anywhere = (
    'dsem off;',
    'dsem a limit=1;',
    'dsem a timeout=1s priority=-8 weight=2 queue=5 limit=20;',
    'dsem a limit=0 weight=5;',
    'dsem "tenant:$http_x_tenant" limit=$arg_l weight=$arg_w '
        . 'priority=$arg_p queue=$arg_q timeout=$arg_t fair=$arg_k '
        . 'share=$arg_s;',
    'dsem a$arg_a limit=1$arg_l weight=1000000000;',
    'dsem_status 400;',
    'dsem_status 503 full=429 timeout=504 error=599;',
    'dsem_status 503 error=500;',
    (map { "dsem_log_level $_;" } qw(info notice warn error)),
    (map { "dsem_on_error $_;" } qw(pass reject)),
    (map { "dsem_dry_run $_;" } qw(on off)),
    (map { "dsem_release $_;" } qw(response log)),
    (map { "dsem_reuse $_;" } qw(off 1ms 100ms 60s)),
    (map { "dsem_wait_body $_;" } qw(on off first)),
    (map { "dsem_hold_warn $_;" } qw(off 1ms 90s 2147483647ms)),
    (map { "dsem_retry_after $_;" } qw(auto off 1 5s 2m 1500ms)),
);

my @http = (

    # the ends of the ranges

    'dsem a limit=1000000000 queue=1000000000 weight=1000000000;',
    'dsem a limit=3 weight=3 priority=7 timeout=1ms queue=0;',
    'dsem a limit=1 timeout=2147483647ms;',
    'dsem a limit=00003;',
    'dsem a limit=1 timeout=1h30m;',
    'dsem_redis_connect_timeout 1ms; dsem_redis_timeout 1ms;',
    'dsem_lease 1s;',
    'dsem_lease 1h;',
    'dsem_max_waiting 1;',
    'dsem_prefix ' . 'a:.' . 'p' x 61 . '; dsem_node ' . 'n' x 64 . ';',
    'dsem_prefix A-z_0.9:x; dsem_node A-z_0.9;',

    # addresses

    (map { "dsem_redis $_;" } qw(
        127.0.0.1 127.0.0.1:6380 localhost localhost:65535 [::1] [::1]:6380
        unix:/run/redis/redis.sock UNIX:/run/redis.sock)),

    # names

    'dsem "two words" limit=1;',
    'dsem "{0}" limit=1;',
    qq(dsem "a\r\nb" limit=1; dsem "a\0b" limit=2; dsem "a\0c" limit=3;),
    qq(dsem "\xc3\xa9" limit=1;),
    'dsem "' . 'n' x 3000 . '" limit=1;',
    'dsem limit=1 limit=2;',
    'dsem offer limit=1;',
    'dsem OFF limit=1;',

    # allowed combinations

    'dsem a limit=1; dsem a limit=1 weight=1;',
    'dsem a limit=1; dsem a limit=$arg_l;',
    'dsem a limit=1; dsem b limit=1; dsem a limit=1;',
    'dsem $arg_a limit=1; dsem $arg_a limit=2;',
    'dsem a limit=1; dsem A limit=2;',

    'dsem a limit=1; dsem b limit=1; '
        . 'server { location / { dsem a limit=1; dsem b limit=1; } }',
    'dsem a limit=1; dsem b limit=1; server { location / { dsem b limit=1; } '
        . 'location /x { dsem a limit=1; } location /off { dsem off; } }',
    'dsem a limit=1; dsem $arg_b limit=1; '
        . 'server { dsem $arg_b limit=1; dsem a limit=1; }',
    'dsem off; server { dsem a limit=1; location / { dsem off; '
        . 'location /x { dsem b limit=1; dsem_status 429; } } }',
    'dsem a limit=1; server { location / { if ($arg_x) { return 200; } '
        . 'limit_except GET { deny all; } } }',

    # nothing at all, and everything

    '',

    'dsem_redis 127.0.0.1:6379; dsem_redis_connect_timeout 500ms; '
        . 'dsem_redis_timeout 1; dsem_lease 5s; dsem_max_waiting 100; '
        . 'dsem_prefix dsem; dsem_node n1; '
        . 'server { location / { dsem a limit=20 queue=100 timeout=2s; '
        . 'dsem_status 503; dsem_log_level warn; dsem_on_error reject; '
        . 'dsem_dry_run off; } }',

    # a list as long as the checks must bear

    join("\n", 'server {', (map {
        my $location = $_;
        "location /$location { " . join(' ', map {
            sprintf('dsem n%04d limit=5;', $location + $_)
        } 1 .. 5) . ' }'
    } 1 .. 1000), '}'),
);

push @http, map { $_, "server { $_ }", "server { location / { $_ } }",
    "server { location / { location /x { $_ } } }" } @anywhere;

###############################################################################

my $t = Dsem::Test->new->plan(scalar @http);

for my $http (@http) {
    my $title = length $http > 70 ? substr($http, 0, 67) . '...' : $http;
    $title =~ s/([^ -~])/sprintf('\x%02x', ord($1))/eg;

    # nginx -t opens the ports of the configuration

    $http =~ s/server \{/server { listen 127.0.0.1:%%PORT%%;/g;

    my ($status, $errors) = $t->test_conf(<<"EOF_CONF");
%%GLOBALS%%

events {
}

http {
    %%HTTP%%

    $http
}
EOF_CONF

    ok($status == 0 && $errors !~ /\[(?:emerg|alert|crit|error)\]/, $title)
        or diag($errors);
}

###############################################################################
