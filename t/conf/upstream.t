#!/usr/bin/perl

# "dsem" in an upstream: "nginx -t" refuses each mistake, or warns, with one
# sentence that names the word at fault, and accepts what is right.

use lib 't/lib';
use Dsem::Test;

my $server = 'server 10.0.0.1:80;';
my $pass = 'proxy_pass http://g;';
my $to = 'proxy_pass http://$arg_p;';
my $not = 'is not allowed in "dsem" directive of an upstream,';
my $number = 'it must be "n/server" with a number, or "max_conns" in';
my $name = '"dsem" directive in an upstream must have a name without '
    . 'variables, and not "off"';
my $affinity = 'the balancing method of upstream "g" chooses only for requests '
    . 'without a permit, "dsem" gives the others the server with most free '
    . 'permits: affinity is lost';
my $own = 'of upstream "g" has no "max_conns" in '
    . '%%TESTDIR%%/conf/nginx.conf:%LINE%, "dsem" with "limit=max_conns" takes '
    . 'the limit of each server from it';
my $loopback = 'of upstream "g" with "dsem" in %%TESTDIR%%/conf/nginx.conf:%LINE% '
    . 'is taken for the same server at all nodes';

# each: inside of the upstream, sentence, 1: refused; what else stands in http

my @cases = (
    ["$server dsem g limit=4/server;"],
    ["least_conn; $server dsem g limit=4/server queue=9 timeout=3s priority=1 "
        . 'fair=$arg_t share=2; keepalive 2;'],
    ["$server dsem g limit=4/server weight=1;"],
    ["$server server 10.0.0.2:80 backup; dsem g limit=4/server;"],
    ["$server server 10.0.0.2:80 down max_conns=2; dsem g limit=4/server;"],
    ["$server dsem g limit=4/server;", undef, 0,
        "dsem_on_error local; server { location / { $pass } }"],
    ["$server dsem g limit=4/server;", undef, 0,
        "server { location / { dsem other limit=3; $pass } }"],
    ["$server dsem g limit=4/server;", undef, 0,
        "upstream h { $server dsem h limit=1/server; }"],

    # the limit

    ["$server dsem g;", '"dsem" directive must have "limit" parameter', 1],
    (map { ["$server dsem g limit=$_;",
            qq(invalid value "$_" of "limit" parameter in "dsem" directive, )
                . $number, 1] }
        '4', '4/servers', '/server', 'x/server', 'server', '4/server/server',
        'MAX_CONNS', 'max_conns/server', 'max_connss'),
    ["$server dsem g limit=0/server;", 'invalid value "0/server" of "limit" '
        . 'parameter in "dsem" directive, it must be between 1 and ', 1],
    ["$server dsem g limit=-1/server;", 'invalid value "-1/server" of "limit" '
        . 'parameter in "dsem" directive, it must be between 1 and ', 1],
    ["$server dsem g limit=1000000001/server;", 'invalid value '
        . '"1000000001/server" of "limit" parameter in "dsem" directive, '
        . 'it must be between 1 and ', 1],
    ["$server dsem g limit=\$arg_n/server;", 'invalid value "$arg_n/server" of '
        . '"limit" parameter in "dsem" directive, it must be without variables',
        1],
    ['server 10.0.0.1:80 max_conns=2; server 10.0.0.2:80 max_conns=1 backup; '
        . 'server 10.0.0.3:80 max_conns=3 down; dsem g limit=max_conns;'],
    ["$server dsem g limit=max_conns;", "server 10.0.0.1:80 $own", 1],
    (map { ["server 10.0.0.1:80 max_conns=2; server $_; dsem g limit=max_conns;",
            'server ' . s/ .*//r . " $own", 1] }
        '10.0.0.2:80', '10.0.0.2:80 max_conns=0', '10.0.0.2:80 backup',
        '10.0.0.2:80 down', '10.0.0.1:80', 'unix:/tmp/g.sock', '[::1]:80'),
    ["$server dsem g limit=1/server;", 'invalid value "max_conns" of "limit" '
        . 'parameter in "dsem" directive, it must be a number or', 1, '',
        "server { location / { dsem other limit=max_conns; $pass } }"],
    ["$server dsem g limit=auto;", qq("limit=auto" $not write "limit=n/server" )
        . 'with a number', 1],

    # other words

    (map { ["$server dsem g limit=2/server $_;", qq("$_" $not a request takes )
            . 'one permit of its server', 1] }
        'weight=2', 'weight=$arg_w', 'weight=0'),
    (map { ["$server dsem g limit=2/server $_=1;",
            qq("$_=1" $not it is for "limit=auto"), 1] } qw(min max)),
    ["$server dsem g limit=2/server quota=1;",
        'invalid parameter "quota=1" in "dsem" directive', 1],

    # the name

    (map { ["$server dsem $_ limit=2/server;", $name, 1] }
        'off', '$host', 'a$host', '""'),
    ["$server dsem off;", $name, 1],
    ["$server dsem limit=2/server queue=9;", '"dsem" directive has no name '
        . 'before "limit=2/server"', 1],
    ["$server dsem g limit=1/server; dsem h limit=1/server;",
        '"dsem" directive is duplicate', 1],
    ["$server dsem g limit=1/server;", 'semaphore "g" is used in '
        . '%%TESTDIR%%/conf/nginx.conf:%LINE%, that of an upstream must have '
        . 'a name of its own', 1, "upstream h { $server dsem g limit=1/server; }"],
    ["$server dsem g limit=1/server;", 'semaphore "g" is used in '
        . '%%TESTDIR%%/conf/nginx.conf:%LINE%, that of an upstream must have '
        . 'a name of its own', 1, 'dsem g limit=1;'],
    ["$server dsem g limit=1/server;", 'semaphore "g" is that of an upstream '
        . 'in %%TESTDIR%%/conf/nginx.conf:%LINE%, no other line may have its '
        . 'name', 1, '', "server { location / { dsem g limit=3; $pass } }"],

    # "upstream=" of a location

    (map { ["$server dsem g limit=1/server;", undef, 0,
            "upstream h { $server } server { location / { $_ } }"] }
        "dsem upstream=g; $to", "dsem upstream=G; $to", "dsem upstream=; $to",
        "dsem off; dsem upstream=\$arg_p; dsem_on_error local; $to",
        "dsem upstream=\$arg_p; dsem other limit=3; $to",
        "dsem upstream=g; $pass", 'dsem upstream=g; if ($arg_p) { return 204; }',
        "dsem upstream=g; $to location /h { proxy_pass http://h; }",
        "dsem upstream=g; $to location /a { proxy_pass http://10.0.0.2; }",
        "dsem upstream=g; $to location /api { dsem_api; }",
        "dsem upstream=g; $to location /hold { dsem o limit=1; dsem_hold; }"),
    (map { ["$server dsem g limit=1/server;", qq("upstream=$_" of "dsem" in )
            . '%%TESTDIR%%/conf/nginx.conf:%LINE% names no upstream that has a '
            . '"dsem" directive', 1,
            "upstream h { $server } server { location / { dsem upstream=$_; $to } }"]
    } qw(h none g:80 http://g)),
    [$server, '"upstream=$arg_p" of "dsem" in %%TESTDIR%%/conf/nginx.conf:%LINE% '
        . 'names no upstream that has a "dsem" directive', 1,
        "server { location / { dsem upstream=\$arg_p; $to } }"],
    (map { ["$server dsem g limit=1/server;", qq("upstream=$_->[0]" of "dsem" in )
            . '%%TESTDIR%%/conf/nginx.conf:%LINE% is only for a "proxy_pass" '
            . 'with variables', 1, "upstream h { $server dsem h limit=1/server; } "
            . "server { location / { dsem upstream=$_->[0]; $_->[1] } }"] }
        ['$arg_p', $pass], ['', $pass], ['h', $pass],
        ['g', 'proxy_pass http://10.0.0.2;'], ['g', 'dsem_api;'],
        ['g', 'dsem o limit=1; dsem_hold;']),
    (map { ["$server dsem g limit=1/server;", '"dsem" directive with "upstream=" '
            . 'is allowed in a location only', 1, $_] }
        'dsem upstream=g;', "server { dsem upstream=g; location / { $to } }"),
    ["$server dsem g limit=1/server;", 'invalid parameter "limit=1" in "dsem '
        . 'upstream=", the limit is that of the upstream', 1,
        "server { location / { dsem upstream=g limit=1; $to } }"],
    ["$server dsem g limit=1/server;", '"dsem" directive with "upstream=" is '
        . 'duplicate', 1,
        "server { location / { dsem upstream=g; dsem upstream=; $to } }"],

    # another module at the same level

    (map { ["$server dsem g limit=1/server;", 'location "/two" has "..._pass" '
            . "directives of two modules, to upstreams $_->[0], with "
            . '"dsem" in one of these it must have one only', 1,
            "upstream h { $server dsem h limit=1/server; } upstream i { $server } "
            . "server { location /two { $_->[1] } }"] }
        ['"g" and "h"', "scgi_pass h; $pass"], ['"g" and "h"', "$pass scgi_pass h;"],
        ['"g" and "i"', "scgi_pass i; $pass"],
        ['"h" and "g"', 'proxy_pass http://h; memcached_pass g;'],
        ['"g" and "10.0.0.2"', "$pass fastcgi_pass 10.0.0.2:9000;"],
        ['"g" and "h"', "if (\$arg_p) { scgi_pass h; $pass }"]),
    (map { ["$server dsem g limit=1/server;", undef, 0,
            "upstream i { $server } server { location /two { $_ } }"] }
        'scgi_pass i; proxy_pass http://i;', "scgi_pass i; if (\$arg_p) { $pass }",
        "$pass if (\$arg_p) { scgi_pass i; }",
        'set $memcached_key k; memcached_pass i; '
            . "location /two/in { $pass if (\$arg_p) { return 204; } }"),

    # its place

    ["$server dsem g limit=1/server; least_conn;", '"dsem" must follow the '
        . 'balancing method of upstream "g" in '
        . '%%TESTDIR%%/conf/nginx.conf:%LINE%', 1],

    # its servers

    [(join ' ', map({ "server 10.0.0.$_:80;" } 1 .. 64),
        'dsem g limit=1/server;')],
    [(join ' ', map({ "server 10.0.0.$_:80;" } 1 .. 65),
        'dsem g limit=1/server;'),
        'upstream "g" with "dsem" has 65 servers in '
        . '%%TESTDIR%%/conf/nginx.conf:%LINE%, at most 64 may have permits', 1],

    # all permits together

    ['server 10.0.0.1:80; server 10.0.0.2:80; dsem g limit=500000000/server;'],
    ['server 10.0.0.1:80; server 10.0.0.2:80; server 10.0.0.3:80 max_conns=1; '
        . 'dsem g limit=500000000/server;',
        'upstream "g" with "dsem" has 1000000001 permits at all its servers '
        . 'together in %%TESTDIR%%/conf/nginx.conf:%LINE%, at most 1000000000 '
        . 'are possible', 1],
    [(join ' ', map({ "server 10.0.0.$_:80;" } 1 .. 64),
        'dsem g limit=1000000000/server;'),
        'upstream "g" with "dsem" has 64000000000 permits at all its servers '
        . 'together in %%TESTDIR%%/conf/nginx.conf:%LINE%, at most 1000000000 '
        . 'are possible', 1],

    # warnings

    ["$server dsem g limit=1/server queue=9 fair=all;", q("fair=all" of semaphore "g" in %%TESTDIR%%/conf/nginx.conf:%LINE% has no variables)],
    ["$server dsem queue=9 limit=1/server;", 'the first word "queue=9" of '
        . '"dsem" directive is the name of a semaphore, not a parameter'],
    (map { ["$server dsem g limit=1/server;", qq("$_->[0]" in location "$_->[1]" )
            . 'has variables, a request that comes to an upstream with "dsem" '
            . 'by it is answered with 500, name the upstream with "dsem '
            . 'upstream="', 0, "upstream h { $server } server { $_->[2] }"] }
        ['proxy_pass', '/v/', "location /v/ { $to }"],
        ['proxy_pass', '/v', "location /v { $to if (\$arg_a) { return 204; } }"],
        ['proxy_pass', '/v', "location /v { $to limit_except GET { deny all; } }"],
        ['proxy_pass', '/v', "location /v { $to dsem o limit=1; }"],
        ['proxy_pass', '/v', "location /v { proxy_pass http://h; "
            . "if (\$arg_a) { $to } }"],
        ['proxy_pass', '/v', "location / { dsem upstream=; $to } location /v { $to }"],
        ['uwsgi_pass', '/v', 'location /v { uwsgi_pass $arg_p; }']),
    (map { ["$server $_->[0]", undef, 0, "upstream h { $server } server { $_->[1] }"] }
        ['', "location /v { $to }"],
        ['dsem g limit=1/server;', 'location /v { proxy_pass http://h; '
            . "location /v/w { return 204; } }"],
        ['dsem g limit=1/server;', 'location /v { proxy_pass http://10.0.0.2; '
            . 'if ($arg_a) { set $memcached_key 1; } }'],
        ['dsem g limit=1/server;', "location /v { dsem upstream=; $to "
            . "if (\$arg_a) { $to } location /v/w { $to } }"],
        ['dsem g limit=1/server;', "location /v { $to dsem_api; }"]),
    (map { ["$_; $server dsem g limit=1/server;", $affinity] }
        'hash $uri', 'hash $uri consistent', 'ip_hash', 'random',
        'random two least_conn'),
    ['server 10.0.0.1:80 max_fails=0; server 10.0.0.2:80 max_fails=0; '
        . 'dsem g limit=1/server;', 'server 10.0.0.1:80 of upstream "g" has '
        . '"max_fails=0" in %%TESTDIR%%/conf/nginx.conf:%LINE%, if it fails at '
        . 'once it is always the freest one and gets most requests'],
    ['server 127.0.0.1:81; server 127.0.0.1:82; dsem g limit=1/server;',
        "server 127.0.0.1:81 $loopback"],
    ["$server server unix:/tmp/g.sock; dsem g limit=1/server;",
        "server unix:/tmp/g.sock $loopback"],
    ["$server server [::1]:80; dsem g limit=1/server;",
        "server [::1]:80 $loopback"],
    (map {
        my ($line, $warning) = @$_;
        ["$server dsem g limit=1/server queue=9 fair=\$$line;",
            $warning && '"dsem" directive of the upstream of location "/" has '
                . $warning, 0, $_->[2]];
    } ['request_body', '$request_body, which is empty with '
            . '"dsem_wait_body off"', 'dsem_wait_body off;'],
        ['request_body', 'values that are evaluated without the body, with '
            . '"proxy_request_buffering off" it is not read first',
            'proxy_request_buffering off;'],
        ['request_body'],
        ['arg_t', undef, 'dsem_wait_body off; proxy_request_buffering off;'],
        ['arg_t', 'values that are evaluated without the body, with '
            . '"proxy_request_buffering off" it is not read first',
            'dsem_wait_body first; proxy_request_buffering off;']),
);

my $t = Dsem::Test->new;

# since 1.29.7 "keepalive" wraps when all is read, in any order

my $keepalive = !nginx_since('1.29.7');

push @cases, ["$server keepalive 2; dsem g limit=1/server;",
    $keepalive ? ('"dsem" directive must be before "keepalive"', 1) : ()];

# "sticky", since 1.29.6 and where it was not left out

my ($unknown) = $t->test_conf(<<"EOF_CONF");
%%GLOBALS%%
events { }
http {
    %%HTTP%%
    upstream g { $server sticky cookie s; }
}
EOF_CONF
push @cases, ["$server sticky cookie s; dsem g limit=1/server;",
        '"dsem" directive must be before "sticky"', 1],
    ["$server dsem g limit=1/server; sticky cookie s;", '"sticky" of upstream '
        . '"g" in %%TESTDIR%%/conf/nginx.conf:%LINE% chooses only for requests '
        . 'without a permit, "dsem" gives the others the server with most free '
        . 'permits: affinity is lost'] unless $unknown;

for (@cases) {
    my ($in, $sentence, $refused, $before, $after) = @$_;
    $_ //= '' for $before, $after;

    my ($status, $errors) = $t->test_conf(<<"EOF_CONF");
%%GLOBALS%%
events { }
http {
    %%HTTP%%
    $before
    upstream g { $in }
    $after
    server {
        listen 127.0.0.1:%%PORT%%;
        location / { $pass }
    }
}
EOF_CONF

    is $status ? 1 : 0, $refused ? 1 : 0,
        ($refused ? 'refused: ' : 'accepted: ') . "$before $in $after";

    # nginx says by itself that there are two methods

    my @said = grep { /\[(?:emerg|warn)\]/ && !/method redefined/ }
        split /\n/, $errors;

    if (!defined $sentence) {
        is_deeply \@said, [], 'nothing is said';
        next;
    }

    $sentence = $sentence =~ s/%%TESTDIR%%/$t->dir/er;
    $sentence = join '\d+', map { quotemeta } split /%LINE%/, $sentence;
    is scalar(@said), 1, 'one sentence' or diag $errors;
    like $said[0] // '', qr/\[(?:emerg|warn)\] (?:\d+#\d+: )?$sentence/,
        'it names the word';
}

$t->done;
