#!/usr/bin/perl

# A body is whole at the upstream, by HTTP/1 and by HTTP/2, whether it was
# read before the request waited in the queue or comes while it does, and
# whether it is kept in memory or in a file. Streamed bodies are not waited
# for.

use Digest::MD5 qw(md5_hex);
use lib 't/lib';
use Dsem::Http2;
use Dsem::Test;

my $t = Dsem::Test->new;
$t->redis;
my $up = $t->upstream;

my $node = $t->node('n1', <<'EOF_CONF');
dsem one limit=1 queue=10 timeout=30s;
client_max_body_size 2m;
lingering_close off;
server {
    listen 127.0.0.1:%%PORT%%;
    listen 127.0.0.1:%%PORT2%% http2;
    proxy_http_version 1.1;
    location /on {
        proxy_pass http://127.0.0.1:%%PORT3%%;
    }
    location /on/small_buffer {
        client_body_buffer_size 1k;
        proxy_pass http://127.0.0.1:%%PORT3%%;
    }
    location /on/large_buffer {
        client_body_buffer_size 2m;
        proxy_pass http://127.0.0.1:%%PORT3%%;
    }
    location /off {
        dsem_wait_body off;
        proxy_pass http://127.0.0.1:%%PORT3%%;
        location /off/unbuffered {
            proxy_request_buffering off;
            proxy_pass http://127.0.0.1:%%PORT3%%;
        }
    }
}
# keeps what the upstream gets
log_format body '$http_x_nonce $request_body_file';
server {
    listen 127.0.0.1:%%PORT3%%;
    dsem off;
    access_log %%DIR%%/bodies.log body;
    location / {
        client_body_in_file_only on;
        proxy_pass http://%%UPSTREAM%%;
    }
}
EOF_CONF

# a megabyte that tells when a piece is missing or twice there
my $body = join '', map { sprintf '%07d|', $_ } 1 .. 131_072;
my $sum = md5_hex($body);

sub bodies {
    open my $log, '<', $node->dir . '/bodies.log' or return;
    return <$log>;
}

sub sum_at_upstream {
    my ($nonce) = @_;
    my $path = wait_for {
        my ($path) = map { /^\Q$nonce\E (\S+)/ } bodies();
        $path;
    } undef, "the body of $nonce";
    open my $file, '<:raw', $path or return "$path: $!";
    local $/;
    return md5_hex(<$file>);
}

sub post1 {
    my ($path, $nonce) = @_;
    my $request = $node->begin($path, -method => 'POST', 'X-Nonce' => $nonce,
        -body => $body);
    return sub { $request->status };
}

sub post2 {
    my ($path, $nonce) = @_;
    my $h2 = Dsem::Http2->new($node->raw(2));
    my $stream = $h2->post($path, $body, 'content-length' => length $body,
        'x-nonce' => $nonce);
    return sub { $h2->ended($stream) && $h2->status($stream) };
}

my @holders;
my %post = (http1 => \&post1, http2 => \&post2);

for my $path ('/on', '/on/small_buffer', '/on/large_buffer', '/off',
    '/off/unbuffered')
{
    for my $version (sort keys %post) {
        my $nonce = "$version$path";

        # nobody takes what the client of HTTP/1 sends while it waits
        my $waits = $version eq 'http2' || $path =~ /on/;
        if ($waits) {
            push @holders, $node->begin('/on?hang=1');
            wait_for { state() eq '1 0' && $up->now == 1 };
        }
        my $status = $post{$version}->("$path?t=1", $nonce);
        if ($waits) {
            wait_for { $status->(); state() eq '1 1' };
            $up->release_all;
        }
        eventually { ($status->() // 0) eq 200 } "$nonce: served";
        is(sum_at_upstream($nonce), $sum, 'body complete');
        wait_for { state() eq '0 0' };
    }
}

# its length is not known: it is not waited for

my $chunked = $node->begin('/on?t=1', -method => 'POST',
    'Content-Length' => undef, 'Transfer-Encoding' => 'chunked',
    'X-Nonce' => 'chunked');
eventually { state() eq '1 0' } 'chunked: permit before body';
$chunked->raw->send(sprintf "%x\r\n%s\r\n0\r\n\r\n", length $body, $body);
is($chunked->wait->status, 200, 'request served');
is(sum_at_upstream('chunked'), $sum, 'body complete');

my $h2 = Dsem::Http2->new($node->raw(2));
my $stream = $h2->begin_post('/on?t=1', 'x-nonce' => 'streamed');
eventually { state() eq '1 0' } 'stream: permit before body';
$h2->data($stream, $body, 'last');
is($h2->status($stream), 200, 'request served');
is(sum_at_upstream('streamed'), $sum, 'body complete');

$stream = $h2->begin_post('/on?t=1', 'x-nonce' => 'stream',
    'content-length' => length $body);
$h2->data($stream, substr $body, 0, 500_000);
my $get = $h2->get('/on?t=1');
is($h2->status($get), 200, 'other stream served');
eventually { state() eq '0 0' } 'no permit before the body';
$h2->data($stream, substr($body, 500_000), 'last');
is($h2->status($stream), 200, 'request served');
is(sum_at_upstream('stream'), $sum, 'body complete');

is($up->peak, 1, 'one at a time');
is_deeply([sort glob $node->dir . '/temp/client_body/*'],
    [sort map { m{ (/\S+)} } bodies()], 'no temporary file left');

done_testing();

# permits held and tickets waiting
sub state { return $t->state->counts('one') }
