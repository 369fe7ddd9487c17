#!/usr/bin/perl

# Where "dsem_api" is allowed, what it refuses, and what it warns of.

###############################################################################

use lib 't/lib';
use Dsem::Test;
use Dsem::Tls;

###############################################################################

my $t = Dsem::Test->new;

my $words = 'it must be "on" or "off"';
my $place = '"dsem_api" directive needs a location with a prefix or an exact '
    . 'path, it is not allowed in a named location or one given by a regular '
    . 'expression';

# title, text of a server, expected sentence
my @wrong = (
    ['off', 'location /d/ { dsem_api off; }',
        'invalid parameter "off" in "dsem_api" directive'],
    ['unknown parameter', 'location /d/ { dsem_api read=on; }',
        'invalid parameter "read=on" in "dsem_api" directive'],
    ['control character', qq(location /d/ { dsem_api "x\ny"; }),
        'invalid parameter "x\\x0Ay" in "dsem_api" directive'],
    ['other value', 'location /d/ { dsem_api write=yes; }',
        qq(invalid value "yes" of "write" parameter in "dsem_api" )
        . qq(directive, $words)],
    ['no value', 'location /d/ { dsem_api write=; }',
        '"write" parameter in "dsem_api" directive has no value'],
    ['metrics of another kind', 'location /d/ { dsem_api metrics=all; }',
        'invalid value "all" of "metrics" parameter in "dsem_api" directive, '
        . 'it must be "full"'],
    ['metrics twice',
        'location /d/ { dsem_api metrics=full metrics=full; }',
        'duplicate parameter "metrics" in "dsem_api" directive'],
    ['parameter twice', 'location /d/ { dsem_api write=on write=off; }',
        'duplicate parameter "write" in "dsem_api" directive'],
    ['directive twice', 'location /d/ { dsem_api; dsem_api write=on; }',
        '"dsem_api" directive is duplicate'],
    ['regular expression', 'location ~ ^/d { dsem_api; }', $place],
    ['if in a regular expression',
        'location ~ /d { if ($arg_a) { dsem_api; } }', $place],
    ['named location', 'location @d { dsem_api; }', $place],
    ['server', 'dsem_api;', '"dsem_api" directive is not allowed here'],
    ['limit_except',
        'location /d/ { limit_except GET { dsem_api; } }',
        '"dsem_api" directive is not allowed here'],
);

for my $wrong (@wrong) {
    my ($title, $text, $sentence) = @$wrong;
    my ($status, @said) = conf($text);
    is($status, 1, "$title: refused");
    is(scalar(grep { index($_, "[emerg]") >= 0 && index($_, $sentence) >= 0 }
        @said), 1, "$title: sentence") or diag @said;
}

my $tls = Dsem::Tls->certificates($t);
my $own = $tls->issue('server');
my $certificate = "ssl_certificate $own->{cert}; "
    . "ssl_certificate_key $own->{key}; ssl_client_certificate $own->{cert};";

my $open = '"write=on" in location "/d/" lets every client change limits, '
    . 'restrict it with "allow" and "deny", "auth_basic" or "auth_request"';

# title, text of a server, expected warning
my @warned = (
    ['own limit', 'location /d/ { dsem a limit=1; dsem_api; }',
        '"dsem" directive limits no request in location "/d/", where '
        . '"dsem_api" answers'],
    ['other handler',
        'location /d/ { dsem_api; proxy_pass http://127.0.0.1:1; }',
        '"dsem_api" directive has no effect in location "/d/", a later '
        . 'directive answers its requests'],
    ['inherited limit', 'dsem a limit=1; location /d/ { dsem_api; }'],
    ['no limit at all', 'location /d/ { dsem_api; }'],
    ['off beside it', 'dsem a limit=1; location /d/ { dsem off; dsem_api; }'],
    ['other handler in if', 'location /d/ { dsem_api; if ($arg_a) { '
        . 'proxy_pass http://127.0.0.1:1; } }'],
    ['write=off', 'location /d/ { dsem_api write=off; }'],
    ['metrics=full', 'location /d/ { dsem_api metrics=full write=on; }'],
    ['if', 'location /d/ { if ($arg_a) { dsem_api; } }'],
    ['if in another location below a regular expression',
        'location ~ /d { location /d { if ($arg_a) { dsem_api; } } }'],
    (map { ["exact location: $_", "location = $_ { dsem_api; }"] }
        '/d/', '/', '/health', '/d/metrics', '/d/e/semaphores'),
    (map { ["exact location: $_", "location = $_ { dsem_api; }",
            qq("dsem_api" in exact location "$_" answers 404 only, its path )
            . 'must end with "/", "/semaphores", "/metrics" or "/health"'] }
        '/d', '/stat', '/dhealth', '/health/d'),
    ['location of all', 'location / { dsem_api; }'],
    ['limit_except around', 'location /d/ { dsem_api write=on; '
        . 'limit_except GET { deny all; } }'],

    # who may change anything; one address is that of all machines
    (map { ["open: $_", "listen %%PORT2%%; $_", $open] }
        'location /d/ { dsem_api write=on; }',
        'location /d/ { dsem_api write=on; deny fe80::1; }',
        'location /d/ { dsem_api write=on; allow 10.0.0.0/8; }',
        'location /d/ { dsem_api write=on; auth_basic x; }',
        'auth_basic_user_file f; location /d/ { dsem_api write=on; '
            . 'auth_basic off; }',
        'location /d/ { dsem_api write=on; limit_except GET PATCH '
            . '{ deny all; } }',
        "ssl_verify_client on; $certificate location /d/ { dsem_api write=on; }",
        "listen [::1]:%%PORT4%% ssl; ssl_verify_client on; $certificate "
            . 'location /d/ { dsem_api write=on; }',
        'location /d/ { deny all; limit_except GET { allow all; } } '
            . 'location = /d/ { dsem_api write=on; }'),
    ['certificates are optional', "listen %%PORT2%% ssl; "
        . "ssl_verify_client optional; $certificate "
        . 'location /d/ { dsem_api write=on; }', $open],
    (map { ["restricted: $_", "listen %%PORT2%%; $_"] }
        'location /d/ { dsem_api write=on; allow 127.0.0.1; deny all; }',
        'allow 127.0.0.1; deny all; location /d/ { dsem_api write=on; }',
        'location /d/ { dsem_api write=on; auth_basic x; '
            . 'auth_basic_user_file f; }',
        'location /d/ { dsem_api write=on; auth_basic $host; '
            . 'auth_basic_user_file f; }',
        'location /d/ { dsem_api write=on; auth_request /a; }',
        'location /d/ { dsem_api write=on; allow all; }',
        'location /d/ { dsem_api write=on; limit_except GET { deny all; } }',
        'location /d/ { dsem_api; }'),
    (map { ["restricted by certificates: $_", "listen %%PORT2%% $_; "
        . "ssl_verify_client on; $certificate location /d/ { "
        . 'dsem_api write=on; }'] } 'ssl', has_http3() ? 'quic' : ()),
    ['listens on this machine', 'listen [::1]:%%PORT2%%; '
        . 'listen unix:%%DIR%%/s; location /d/ { dsem_api write=on; }'],
);

for my $warned (@warned) {
    my ($title, $text, $sentence) = @$warned;
    my ($status, @said) = conf($text);
    is($status, 0, "$title: accepted");
    @said = grep { /\[warn\]/ } @said;
    is(scalar(@said), $sentence ? 1 : 0, "$title: warnings") or diag @said;
    ok(index($said[0], $sentence) >= 0, "$title: sentence") if $sentence;
}

done_testing();

###############################################################################

sub has_http3 {
    my $nginx = $ENV{DSEM_NGINX} // '/usr/sbin/nginx';
    return qx($nginx -V 2>&1) =~ /http_v3_module/;
}

sub conf {
    my ($text) = @_;
    my ($status, $said) = $t->test_conf("%%GLOBALS%%\nevents { }\n"
        . "http {\n%%HTTP%%\nserver {\nlisten 127.0.0.1:%%PORT%%;\n"
        . "$text\n}\n}\n");
    return ($status, split /\n/, $said);
}
