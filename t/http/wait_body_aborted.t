#!/usr/bin/perl

# A request that ends while its body is read has asked for nothing and leaves
# nothing: its client closes or resets, the body is too large, or does not
# come in time. "Expect: 100-continue" is answered before a permit is taken.

use lib 't/lib';
use Dsem::Http2;
use Dsem::Test;

my $t = Dsem::Test->new;
$t->redis;
my $up = $t->upstream;

my $node = $t->node('n1', <<'EOF_CONF');
dsem one limit=1 queue=10 timeout=30s;
client_max_body_size 1000;
lingering_close off;
server {
    listen 127.0.0.1:%%PORT%%;
    listen 127.0.0.1:%%PORT2%% http2;
    location / {
        proxy_pass http://%%UPSTREAM%%;
    }
    location /patient {
        proxy_pass http://%%UPSTREAM%%;
    }
    location /impatient {
        client_body_timeout 300ms;
        proxy_pass http://%%UPSTREAM%%;
    }
}
EOF_CONF

sub post {
    my ($path, $length, %header) = @_;
    return $node->begin($path, -method => 'POST',
        'Content-Length' => $length, %header);
}

# somebody has the permit, so whoever asks is seen

my $holder = $node->begin('/?hang=1');
wait_for { state() eq '1 0' };

for my $case (
    ['closed', 400, sub { $_[0]->raw->send('x'); $_[0]->close }],
    ['reset', 400, sub { $_[0]->raw->send('x'); $_[0]->abort }],
    ['closed without a byte', 400, sub { $_[0]->close }],
    ['half closed', 400, sub { $_[0]->raw->send('x')->shutdown }],
    ['too slow', 408, sub { $_[0]->raw->send('x') }, '/impatient'],
) {
    my ($name, $status, $end, $path) = @$case;
    my $post = post($path // '/', 100);
    $end->($post);
    my $line = $node->logged($post);
    is($line->{status}, $status, "$name: status of nginx");
    is($line->{dsem_status}, '', 'no verdict');
    is(state(), '1 0', 'no permit requested');
}

my $large = post('/', 1001);
is($large->wait->status, 413, '413 sent');
$large->close;
is($node->logged($large)->{dsem_status}, '', 'no verdict');
is(state(), '1 0', 'no permit requested');

# the same by HTTP/2

my $h2 = Dsem::Http2->new($node->raw(2));
my @header = ('content-length' => 100);
my $stream = $h2->begin_post('/patient', @header);
$h2->data($stream, 'x' x 50)->ping->rst($stream)->ping;
is(state(), '1 0', 'HTTP/2: stream reset');
is($h2->status($h2->post('/patient', 'x' x 10, @header)), 400,
    'HTTP/2: short body rejected');
is($h2->status($h2->post('/', 'x', 'content-length' => 1001)), 413,
    'HTTP/2: large body rejected');
$stream = $h2->begin_post('/patient', @header);
$h2->data($stream, 'x' x 50)->ping->close;
eventually { (grep { $_->{status} == 499 } $node->access_log) == 2 }
    'HTTP/2: connection closed';
is(state(), '1 0', 'no permit requested');

# whoever has sent its body and waits may leave

my $waits = post('/', 10);
$waits->raw->send('x' x 10);
eventually { state() eq '1 1' } 'one request queued';
$waits->close;
eventually { state() eq '1 0' } 'ticket removed';
is($node->logged($waits)->{status}, 499, 'logged as 499');
my $pipelined = post('/', 10);
$pipelined->raw->send('x' x 10 . 'GET / HTTP/1.1');
eventually { state() eq '1 1' } 'request with unread bytes queued';
$pipelined->abort;
eventually { state() eq '1 0' } 'ticket removed';

# go ahead, while another has the permit

my $expects = post('/patient', 10, Expect => '100-continue');
my $interim = $expects->raw->read_until(qr/\r\n\r\n/);
is($interim, "HTTP/1.1 100 Continue\r\n\r\n", 'interim response sent');
is(state(), '1 0', 'no permit requested yet');
$expects->raw->send('x' x 10);
eventually { state() eq '1 1' } 'queued after its body';
$up->release_all;
is($expects->wait->status, 200, 'request served');
is($holder->wait->status, 200, 'served after holder');

is($up->started, 2, 'only complete requests at upstream');
is($up->peak, 1, 'one at a time');
eventually { state() eq '0 0' } 'no permit held';

done_testing();

# permits held and tickets waiting
sub state { return $t->state->counts('one') }
