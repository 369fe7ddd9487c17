#!/usr/bin/perl

# Values from the body, by the kind of body: in memory, in a file, none,
# chunked, by HTTP/2 with and without a length, too large. Where nginx does not
# read it before it connects to the upstream the values are those without a
# body, and one log line says so.

use lib 't/lib';
use Dsem::Http2;
use Dsem::Test;

my $t = Dsem::Test->new;
$t->redis;
my $up = $t->upstream;

my $node = $t->node('n1', <<'EOF_CONF');
worker_processes 1;
dsem_reuse off;
dsem_redis_timeout 30s;
dsem api limit=100 weight=$weight queue=10 timeout=1m;
client_body_buffer_size 4k;
client_max_body_size 100k;
proxy_http_version 1.1;
proxy_set_header X-Weight $dsem_weight;
log_format body escape=json '$http_x_nonce $request_body_file';
map $request_body $weight {
    "~^weight=(?<number>[0-9]+)" $number;
    "~." 50;
    default 7;
}
map $request_length $length {
    "~^[0-9]{4}" 20;
    default 3;
}
map $request_body_file $in_file {
    "~." 30;
    default 4;
}
# the weight that was acquired
map $dsem_in_use $dsem_weight {
    default $dsem_in_use;
}
server {
    listen 127.0.0.1:%%PORT%%;
    listen 127.0.0.1:%%PORT2%% http2;
    access_log %%DIR%%/bodies.log body;
    location / { proxy_pass http://%%UPSTREAM%%; }
    location /unbuffered {
        proxy_request_buffering off;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /off {
        dsem_wait_body off;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /first {
        dsem_wait_body first;
        dsem api limit=100 weight=$length queue=10 timeout=1m;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /on {
        dsem api limit=100 weight=$length queue=10 timeout=1m;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /file {
        dsem api limit=100 weight=$in_file queue=10 timeout=1m;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /none {
        log_not_found off;
        root %%DIR%%;
    }
    location /invalid {
        dsem api limit=100 weight=$request_body queue=10 timeout=1m;
        proxy_pass http://%%UPSTREAM%%;
    }
}
EOF_CONF

my $large = 'weight=9' . ' ' x 8000;

# twice each: the second time the location knows

for my $round (1, 2) {
    is weight('/', 'weight=5'), 5, 'in memory';
    is weight('/', 'none'), 50, 'default of a body';
    is weight('/', ''), 7, 'no body';
    is $node->get('/?t=1')->status, 200, 'no body, GET';
    is +($up->log)[-1]{weight}, 7, 'weight without a body';
    is weight('/', $large), 7, 'in a file: empty';
    is weight('/file', $large), 30, 'name of the file';
    is weight('/file', 'weight=5'), 4, 'no file';
    is weight('/', 'weight=6', chunked => 1), 6, 'chunked';
    is weight('/', $large, chunked => 1), 7, 'chunked, in a file';
    is weight2('/', 'weight=8', 1), 8, 'HTTP/2 with a length';
    is weight2('/', 'weight=9', 0), 9, 'HTTP/2 without a length';
    is weight('/first', 'x' x 2000), 20, 'first: any variable of the body';
    is weight('/first', 'x' x 2000, chunked => 1), 20, 'first: chunked';
    is weight('/first', ''), 3, 'first: no body';

    # what is not read first

    is weight('/unbuffered', 'weight=5'), 7, 'no request buffering: empty';
    is weight('/off', 'weight=5'), 7, 'dsem_wait_body off: empty';
    is weight('/none', 'weight=5'), 404, 'no handler';
}

# a variable that is not known to need the body, which comes later

my $later = $node->begin('/on?hang=1', -method => 'POST',
    'Content-Length' => 2000);
$later->raw->send('x' x 2000);
wait_for { $up->now > 0 } 15, 'at the backend';
is $t->state->held('api'), 3, 'evaluated without the body';
$up->release_all;
# else nginx waits for the rest of the body, in vain
$later->wait->close;

for my $location ('/unbuffered', '/off') {
    is scalar $node->grep_log(qr/\[warn\] .*dsem: values in location "$location" are evaluated without the request body, which is not read first there/),
        1, "$location: one line";
}
is scalar $node->grep_log(qr/dsem: values in location/), 2, 'no other';
is scalar $node->grep_log(qr/\[error\]/), 0, 'no error so far';

# too large: no permit, and the value is not evaluated

my $served = $up->started;
is post('/', 'x' x 200_000)->wait->status, 413, 'too large';
is post('/', 'x' x 200_000, chunked => 1)->wait->status, 413,
    'chunked, too large';
is $up->started, $served, 'not at the backend';

# nonsense in the body, and no complaint of the value without it

$node->clear_logs;
is post('/invalid?t=1', '12')->wait->status, 200, 'a number';
is scalar $node->grep_log(qr/\[error\]/), 0, 'no complaint';
is post('/invalid', 'many')->wait->status, 503, 'no number';
is scalar $node->grep_log(qr/dsem error: value "many" of "weight" of semaphore "api" is not a number between 1 and 1000000000/),
    1, 'one line';

$t->done;

sub post {
    my ($path, $body, %opt) = @_;
    return $node->begin($path, -method => 'POST', -body => $body)
        if !$opt{chunked};
    my $request = $node->begin($path, -method => 'POST',
        'Content-Length' => undef, 'Transfer-Encoding' => 'chunked');
    $request->raw->send(sprintf "%x\r\n%s\r\n0\r\n\r\n", length $body, $body);
    return $request;
}

# The permits in use while the request is at the backend.
sub weight {
    my ($path, $body, %opt) = @_;
    my $request = post("$path?t=1", $body, %opt);
    return $request->status if $request->wait->status != 200;
    return +($up->log)[-1]{weight};
}

sub weight2 {
    my ($path, $body, $length) = @_;
    my $h2 = Dsem::Http2->new($node->raw(2));
    my $stream = $length
        ? $h2->post("$path?t=1", $body, 'content-length' => length $body)
        : $h2->begin_post("$path?t=1");
    $h2->data($stream, $body, 'last') if !$length;
    is $h2->status($stream), 200, 'served';
    return +($up->log)[-1]{weight};
}
