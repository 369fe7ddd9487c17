#!/usr/bin/perl

# What the API answers to each path, method, header and body, before anything
# is asked of the fleet: status, headers, errors as JSON. Nothing but a right
# PATCH or DELETE with "write=on" changes anything.

###############################################################################

use lib 't/lib';
use Cpanel::JSON::XS ();
use Digest::SHA qw(sha1_hex);

use Dsem::Test;

###############################################################################

my $json = Cpanel::JSON::XS->new->utf8;
my $t = Dsem::Test->new;
my $redis = $t->redis;
my $up = $t->upstream;

my $node = $t->node('n1', <<'EOF_CONF');
client_max_body_size 100k;
server {
    listen 127.0.0.1:%%PORT%%;
    server_name x;
    location / {
        dsem $http_x_name limit=2 queue=1;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /dsem/ {
        dsem_api write=on;
    }
    location /no/slash {
        dsem_api;
    }
    location /read/ {
        dsem_api write=off;
    }
    location = /only/metrics {
        dsem_api;
        if ($arg_if) {
            set $yes 1;
        }
        limit_except GET {
            deny 127.0.0.2;
        }
    }
    location /methods/ {
        dsem_api write=on;
        limit_except GET {
            deny 127.0.0.2;
        }
    }
    location /if/ {
        if ($arg_api) {
            dsem_api;
        }
        root %%DIR%%;
    }
    location /file/ {
        dsem_api write=on;
        client_body_in_file_only on;
    }
}
EOF_CONF

wait_for { status('/dsem/health') == 200 } 15, 'connected';

# methods

for my $path ('', qw(semaphores metrics health)) {
    is(status("/dsem/$path"), 200, "GET $path");
    is(status("/dsem/$path", -method => 'HEAD'), 200, "HEAD $path");
    for my $method (qw(POST PUT DELETE PATCH OPTIONS)) {
        my $r = $node->get("/dsem/$path", -method => $method);
        is($r->status . ' ' . ($r->header('Allow') // ''), '405 GET, HEAD',
            "$method $path");
    }
}

my $r = $node->get('/dsem/semaphores/some', -method => 'PUT');
is($r->status . ' ' . $r->header('Allow'), '405 GET, HEAD, PATCH',
    'PUT of a semaphore');
$r = $node->get('/dsem/sessions/n1:0:1234', -method => 'GET');
is($r->status . ' ' . $r->header('Allow'), '405 DELETE', 'GET of a session');

# headers; the body of HEAD is only counted

for my $path ('', qw(semaphores metrics health nothing)) {
    my $got = $node->get("/dsem/$path");
    my $head = $node->get("/dsem/$path", -method => 'HEAD');
    is($got->header('Cache-Control'), 'no-store', "not stored: $path");
    is($got->header('X-Content-Type-Options'), 'nosniff', "type kept: $path");
    is($got->header('Content-Length'), length $got->body, "length: $path");
    is($head->body, '', "no body: $path");
    cmp_ok($head->header('Content-Length'), '>', 0, "its length: $path");
    is($head->header('Content-Type'), $got->header('Content-Type'),
        "the same type: $path");
}
is($node->get('/dsem/semaphores')->header('Content-Type'),
    'application/json', 'type of JSON');
is($node->get('/dsem/')->header('Content-Type'), 'text/html; charset=utf-8',
    'type of the page');

# the page runs what it has brought, and nothing else

my $page = $node->get('/dsem/');
my ($nonce) = $page->header('Content-Security-Policy')
    =~ /^default-src 'none'; script-src 'nonce-([0-9a-f]{32})';/;
my @nonces = $page->body =~ /<(?:script|style)[^>]* nonce="([^"]*)"/g;
is_deeply(\@nonces, [($nonce) x 2], 'nonce of style and script');
unlike($page->header('Content-Security-Policy'), qr/unsafe/, 'no unsafe-*');
unlike($node->get('/dsem/')->body, qr/nonce="\Q$nonce"/, 'another nonce');

# paths

is(status('/dsem'), 301, 'slash is added');
like($node->get('/no/slash')->header('Location'), qr{/no/slash/$},
    'slash is added to a prefix without');
is(status('/no/slash/'), 200, 'page below a prefix without slash');
is(status('/no/slash/health'), 200, 'health below it');
is(error_of('/no/slashes'), 404, 'another word');
is(status('/only/metrics'), 200, 'exact location');
is(status('/only/metrics?if=1'), 200, 'if in an exact location');
is(status('/only/metrics', -method => 'POST'), 405,
    'limit_except in an exact location');
is(error_of('/dsem/nothing'), 404, 'nothing there');
is(error_of('/dsem/semaphores/'), 404, 'empty name');
is(error_of('/dsem/metrics/x'), 404, 'nothing below metrics');
is(status('/if/health?api=1'), 200, 'if in location');
is(status('/if/health'), 404, 'else');
is(status('/methods/health'), 200, 'limit_except');
is(change('/methods/semaphores/some', limit => 5), 200,
    'limit_except of another method');

# bodies

my $some = '/dsem/semaphores/some';
my %body = (
    'not JSON' => 'limit=5', 'empty object' => '{}', array => '[5]',
    number => '5', text => '"5"', 'two objects' => '{"limit":5}{"limit":5}',
    'a byte behind' => '{"limit":5}x', 'zero behind' => qq({"limit":5}\0),
    'not closed' => '{"limit":5', comma => '{"limit":5,}',
    unknown => '{"limit":5,"queue":7}', nested => '{"limit":{"n":5}}',
    list => '{"limit":[5]}', duplicate => '{"limit":5,"limit":5}',
    capital => '{"Limit":5}', 'escaped name' => '{"\u006cimit":5}',
    'name without quotes' => '{limit:5}', negative => '{"limit":-1}',
    'too many' => '{"limit":1000000001}', 'many digits' => '{"limit":'
        . '9' x 400 . '}', zeros => '{"limit":05}', fraction => '{"limit":5.0}',
    exponent => '{"limit":5e1}', string => '{"limit":"5"}',
    flag => '{"limit":true}', 'word cut' => '{"limit":nul}',
    'pause of 1' => '{"paused":1}', 'pause of null' => '{"paused":null}',
    'pause of text' => '{"paused":"true"}', force => '{"force":true}',
    utf8 => qq({"\xff":5}), 'deep' => '{"limit":' . '[' x 1000 . '}',
);
is(error_of(patch($some, $body{$_})), 400, "body: $_") for sort keys %body;
is(error_of(patch($some, '')), 400, 'body: empty');
my %sentence = (
    '{"limit":5,"queue":7}' => 'unknown member "queue"',
    '{"limit":5,"limit":5}' => 'duplicate member "limit"',
    '{"\u006cimit":5}' => 'the name of a member has an escape or a control '
        . 'character',
    '{"limit":-1}' => '"limit" must be a whole number from 0 to 1000000000, '
        . 'or null',
    '{}' => 'nothing is to be changed: "limit" or "paused" must be there',
);
is($json->decode(patch($some, $_)->body)->{error}, $sentence{$_}, $_)
    for sort keys %sentence;
is(error_of(patch($some, '{"limit":5}' . ' ' x 4086)), 413, 'body too long');
is(error_of(patch($some, '{"limit":5}', 'Content-Type' => $_)), 415,
    'type: ' . ($_ // 'none'))
    for undef, 'text/plain', 'application/jsonp',
        'application/x-www-form-urlencoded';
my $session = 'n1:0:' . '0' x 16;
is(error_of(remove("/dsem/sessions/$session", $_)), 400, "body: $_")
    for '{"force":1}', '{"limit":5}', 'force';
is(error_of(remove("/dsem/sessions/$_")), 400, "no session: $_")
    for 'n1', 'n1:0:xyz', 'n1:x:00', uri('n1:0:00"><script>'), 'x' x 300;
is(error_of(remove("/dsem/sessions/$session")), 404, 'unknown session');

# requests that a page of another site could send

my $own = $node->url('') =~ s{/$}{}r;
my $host = $own =~ s{^http://}{}r;
is(error_of(patch($some, '{"limit":5}', @$_)), 403, "another site: @$_")
    for ['Sec-Fetch-Site' => 'cross-site'], ['Sec-Fetch-Site' => 'same-site'],
        ['Sec-Fetch-Site' => 'none'], ['Sec-Fetch-Site' => ''],
        [Origin => 'http://other.example'], [Origin => 'null'],
        [Origin => "$own.example"], [Origin => "http://x$host"],
        [Origin => 'http://127.0.0.1'], [Origin => ''],
        ['Sec-Fetch-Site' => 'same-origin', Origin => 'https://other.example'];
is(error_of(remove("/dsem/sessions/$session", undef,
    'Sec-Fetch-Site' => 'cross-site')), 403, 'another site: DELETE');
is(error_of(patch('/read/semaphores/some', '{"limit":5}')), 403,
    'write=off: PATCH');
is(error_of(patch('/no/slash/semaphores/some', '{"limit":5}')), 403,
    'write=off is the default');
is(error_of(remove("/read/sessions/$session")), 403, 'write=off: DELETE');
is(get('/dsem/semaphores')->{write}, Cpanel::JSON::XS::true, 'write is told');
is(get('/read/semaphores')->{write}, Cpanel::JSON::XS::false,
    'write=off is told');

# none of all these has changed anything

is_deeply([grep { /^(?:order|limit):/ } @{ $redis->cmd('HKEYS', 'dsem:{0}') }],
    ['order:some'], 'one order');
is(ordered('some'), '5 0', 'that of limit_except');
is(error_of('/dsem/semaphores/unknown'), 404, 'unknown semaphore');

# Redis is asked for a few names in each second; of another one nobody knows
# whether it is there

my @asked = map { $node->begin("/dsem/semaphores/unknown$_") } 1 .. 30;
my %answers = map { $_->wait->status => 1 } @asked;
is(join(' ', sort keys %answers), '404 503', 'many unknown semaphores');

# what a browser, curl and others send is right

is(patch($some, qq( \t\r\n{ "paused" : false ,\n"limit":0} ),
    'Sec-Fetch-Site' => 'same-origin', Origin => uc $own,
    'Content-Type' => 'Application/JSON; charset=utf-8')->status, 200,
    'same origin');
is(ordered('some'), '0 0', 'changed');
is(change('/file/semaphores/some', limit => 1_000_000_000), 200,
    'body in a file');
is(ordered('some'), '1000000000 0', 'highest limit');

# without Host, as in HTTP/3, it is the host of the address that counts

for my $case ([x => 200], [y => 403], ['' => 403]) {
    my ($origin, $status) = @$case;
    my $raw = $node->raw;
    $raw->send("PATCH http://x$some HTTP/1.0\r\nOrigin: http://$origin\r\n"
        . "Content-Type: application/json\r\nContent-Length: 11\r\n\r\n"
        . '{"limit":6}');
    like($raw->read_eof, qr/^HTTP\/1.1 $status /, "address: $origin");
}

# a connection is kept alive, whatever the request had

my $raw = $node->raw;
for (1 .. 2) {
    for my $line ("GET /dsem/health HTTP/1.1\r\nContent-Length: 5",
        "PATCH /read/semaphores/some HTTP/1.1\r\nContent-Length: 5",
        "DELETE /dsem/health HTTP/1.1\r\nContent-Length: 5")
    {
        $raw->send("$line\r\nHost: x\r\n\r\nabcde");
        my $head = $raw->read_until(qr/\r\n\r\n/);
        my ($length) = $head =~ /^Content-Length: (\d+)/m;
        $raw->read_until(qr/\}\n/) if $head !~ /\}\n/;
        like($head, qr/^HTTP\/1.1 (?:200|403|405) /, 'kept alive');
    }
}
$raw->send("PATCH $some HTTP/1.1\r\nHost: x\r\nContent-Type: "
    . "application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    . "b\r\n{\"limit\":9}\r\n0\r\n\r\n");
like($raw->read_until(qr/\}\n/), qr/^HTTP\/1.1 411 /, 'body without length');
$raw->close;

# bodies changed at random: what is accepted is JSON and means what it says

srand 1;
my (@accepted, @refused);
my @seeds = ('{"limit":5}', '{"limit":null,"paused":true}',
    '{ "paused" : false , "limit" : 1000000000 }');
for (1 .. 20) {
    my @bodies = map { mutated($seeds[rand @seeds]) } 1 .. 90;
    my $raw = $node->raw;
    for my $body (@bodies) {
        $raw->send("PATCH $some HTTP/1.1\r\nHost: x\r\nContent-Type: "
            . "application/json\r\nContent-Length: " . length($body)
            . "\r\n\r\n$body");
        my $answer = '';
        $answer .= $raw->read until $answer =~ /\}\n/ || $raw->eof;
        my ($code) = $answer =~ m{^HTTP/1.1 (\d+) };
        push @accepted, $body if $code == 200 && !right($body);
        push @refused, $body if $code != 200 && right($body);
        push @accepted, $answer if $code !~ /^(?:200|400)$/;
    }
    $raw->close;
}
is_deeply(\@accepted, [], 'no wrong body accepted');
is_deeply(\@refused, [], 'no right body refused');

# names of any bytes, as they are in keys or plain

my %odd = (
    script => '"><script>', utf8 => "\xc3\xa4", bytes => "\xff\xfe",
    percent => '100%', quote => q('"\\), slash => 'a/b', newline => "a\nb",
    zero => "a\0b", tilde => 'a~b', dots => '..', blank => ' ',
    colon => 'tenant:a b', hex => '%41', long => 'x' x 300,
    'long and odd' => "\n" x 300,
);
my %key = ('long' => 'x' x 64 . '~' . sha1_hex('x' x 300),
    'long and odd' => '%0A' x 21 . '%~' . sha1_hex("\n" x 300));


for my $what (sort keys %odd) {
    my $name = $odd{$what};
    my $key = $key{$what} // key_of($name);
    # two dots are a step upwards, unless they are encoded twice
    my $path = uri($what eq 'dots' ? '%2e%2E' : $key);
    like(error_of("/dsem/semaphores/$path"), qr/^(?:404|503)$/,
        "$what: not known");
    my $r = patch("/dsem/semaphores/$path", '{"limit":7}');
    is($json->decode($r->body)->{name}, $key, "$what: by its key");
    is(ordered($key), '7 0', "$what: in Redis");
    # nginx itself refuses %00
    next if $name =~ /^\.|%|\0/;
    is(change('/dsem/semaphores/' . uri($name), limit => 8), 200,
        "$what: plain");
    is(ordered($key), '8 0', "$what: the same");
}

# nginx merges slashes and resolves dots: a plain name with them is refused, and
# not taken for another one

for my $name ('x//y', 'a/./b', 'a/../b', 'https://acme', 'x/..', '/x') {
    my @keys = sort @{ $redis->cmd('HKEYS', 'dsem:{0}') };
    my $r = patch('/dsem/semaphores/' . uri($name), '{"limit":9}');
    like(error_of($r), qr/^40[04]$/, "$name: plain");
    like(error_of(patch('/dsem/semaphores/' . uri($name) . '/servers/x',
        '{"limit":9}')), qr/^40[04]$/, "$name: plain, its server");
    is_deeply([sort @{ $redis->cmd('HKEYS', 'dsem:{0}') }], \@keys,
        "$name: no order");
    is(change('/dsem/semaphores/' . uri(key_of($name)), limit => 9), 200,
        "$name: as in keys");
    is(ordered(key_of($name)), '9 0', "$name: that one");
}
is(change('/dsem/semaphores/a%2Fb?x=//y', limit => 8), 200, 'arguments');

# in the counters of this node, in JSON and for Prometheus

my @sent = grep { $odd{$_} !~ /[\n\0]/ && $odd{$_} =~ /\S/ } sort keys %odd;
is($node->get('/?t=0', 'X-Name' => $odd{$_})->status, 200, "$_: passed")
    for @sent;
wait_for { @{ get('/dsem/semaphores')->{semaphores} } > keys %odd } 15,
    'all names, and one more';
my %local = map { $_->{name} => $_->{local} }
    @{ get('/dsem/semaphores')->{semaphores} };
my $metrics = $node->get('/dsem/metrics')->body;
for my $what (@sent) {
    my $key = $key{$what} // key_of($odd{$what});
    is($local{$key}{passed}, 1, "$what: counted");
    like($metrics, qr/^dsem_requests_total\{semaphore="\Q$key\E",
        result="passed"\}\ 1$/mx, "$what: in the metrics");
}

done_testing();

###############################################################################

sub status { return $node->get(@_)->status }

sub get {
    my ($path) = @_;
    return $json->decode($node->get($path)->body);
}

sub uri {
    my ($name) = @_;
    return $name =~ s/([^A-Za-z0-9_-])/sprintf '%%%02X', ord $1/ger;
}

# Status of an answer that is an error with a sentence, the same in its body.
sub error_of {
    my ($r) = map { ref ? $_ : $node->get($_) } @_;
    my $error = $json->decode($r->body);
    return $error->{status} == $r->status && $error->{error} =~ /\w \w/
        && $r->header('Content-Type') eq 'application/json'
        ? $r->status : 'other than ' . $r->status;
}

sub patch {
    my ($path, $body, %header) = @_;
    return $node->get($path, -method => 'PATCH', -body => $body,
        'Content-Type' => 'application/json', %header);
}

sub change {
    my ($path, %change) = @_;
    return patch($path, $json->encode(\%change))->status;
}

sub remove {
    my ($path, $body, %header) = @_;
    return $node->get($path, -method => 'DELETE', %header, defined $body
        ? (-body => $body, 'Content-Type' => 'application/json') : ());
}

sub ordered { return $t->state->ordered(@_) }

# With up to three bytes changed, removed, added or doubled.
sub mutated {
    my ($body) = @_;
    my @bytes = map { chr } 0 .. 255;
    my @likely = split //, '{}[]":,\\ 0159.-+eE' . "\n\t\0tfnul";
    for (1 .. 1 + rand 3) {
        my $at = int rand length $body;
        my $byte = rand() < .7 ? $likely[rand @likely] : $bytes[rand @bytes];
        substr($body, $at, int rand 2) = $byte if rand() < .6;
        substr($body, $at, 1) = '' if rand() < .3 && length $body > 1;
        $body .= substr $body, $at if rand() < .1;
    }
    return $body;
}

# As another reader of JSON sees it; a name with an escape, or twice, is wrong.
sub right {
    my ($body) = @_;
    my $object = eval { $json->decode($body) };
    return ref $object eq 'HASH' && %$object
        && !(grep { !/^(?:limit|paused)$/ } keys %$object)
        && $body !~ /\\/ && ($body =~ tr/://) == keys %$object
        && (!exists $object->{limit} || $body =~ /"limit"\s*:\s*
            (?:null|0|[1-9]\d{0,8}|1000000000)\s*[,}]/x)
        && (!exists $object->{paused}
            || Cpanel::JSON::XS::is_bool($object->{paused}));
}

sub key_of {
    my ($name) = @_;
    return $name =~ s/([^A-Za-z0-9._:-])/sprintf '%%%02X', ord $1/ger;
}
