#!/usr/bin/perl

# HTTP/3: requests wait and pass like all others, are capped over all
# connections, and leave nothing when their client has left: the whole
# connection, or one stream of it. Values from the body are those of the whole
# body, with and without a length.

use lib 't/lib';
use Dsem::Http3 qw(http3_curl);
use Dsem::Process;
use Dsem::Test;

my $t = Dsem::Test->new;
my $dir = $t->dir;
my @curl = http3_curl($t);

$t->redis;
my $up = $t->upstream;

my $node = $t->node('n1', <<'EOF_CONF');
ssl_certificate %%DIR%%/../cert.pem;
ssl_certificate_key %%DIR%%/../key.pem;
log_format version '$server_protocol $http3 $status dsem=$dsem_status '
                   '$request_uri';
log_format values '$dsem_status $dsem_name $http_content_length $request_body';
access_log %%DIR%%/version.log version;
client_body_buffer_size 200k;
map $request_body $model {
    "~^model=(?<name>[a-z]+)" $name;
    default none;
}
server {
    listen 127.0.0.1:%%PORT%% quic;
    location / {
        dsem streams limit=2 queue=100 timeout=20s;
        proxy_set_header X-Nonce $arg_nonce;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /values {
        access_log %%DIR%%/values.log values;
        dsem "model:$model" limit=1 queue=10 timeout=20s;
        proxy_pass http://%%UPSTREAM%%;
    }
}
EOF_CONF

# one request, one connection

my $one = h3('/?t=1');
is(statuses($one), '200', 'request served');
is_deeply([logged()], ['HTTP/3.0 h3 200 dsem=PASSED /?t=1'],
    'protocol is HTTP/3');

# many connections

my @many = map { h3("/?hang=1&nonce=many$_") } 1 .. 10;
eventually { state() eq '2 8' && $up->now == 2 } 'two of ten served', 10;
wait_for { $up->release_all; !grep { $_->{process}->alive } @many };
is(join(' ', map { statuses($_) } @many), join(' ', (200) x 10),
    'all served');
is($up->peak, 2, 'two at a time');

# many streams of one connection

$up->reset;
my $streams = streams('2 8', map { ($_ > 1 ? '--next' : (), '-m', 5,
    "/?hang=1&nonce=stream$_") } 1 .. 10);
wait_for { $up->release_all; !$streams->{process}->alive };
is(statuses($streams), join(' ', (200) x 10), 'ten streams served');
is($up->peak, 2, 'two at a time');
eventually { 8 == grep { /200 dsem=QUEUED.*nonce=stream/ } logged() }
    'eight had waited';

# a body

my $post = h3('-d', 'x' x 100_000, '/?t=1');
is(statuses($post), '200', 'request with body served');

# values from the body; the second time the location knows

my @body = map { "model=$_ " . 'x' x 100_000 } qw(one two three);
for my $round (1, 2) {
    my @asked = (h3('-d', $body[0], '/values?t=1'),
        h3('-H', 'Content-Length:', '-d', $body[1], '/values?t=1'),
        h3('/values?t=1'));
    is(join(' ', map { statuses($_) } @asked), '200 200 200', 'served');
}
my @logged;
wait_for { @logged = values_logged(); @logged == 6 } 15, 'logged';
is_deeply(\@logged, [map { $_, $_ } 'PASSED model:none - -',
    'PASSED model:one ' . length($body[0]) . " $body[0]",
    "PASSED model:two - $body[1]"], 'values of the whole body');

my @three = map { h3('-d', $body[2], '/values?hang=1') } 1 .. 2;
eventually { $t->state->counts('model:three') eq '1 1' } 'one of two waits';
wait_for { $up->release_all; !grep { $_->{process}->alive } @three };
is(join(' ', map { statuses($_) } @three), '200 200', 'both served');

# whoever leaves, closing the connection

$up->reset;
my @held = map { h3("/?hang=1&nonce=held$_") } 1 .. 2;
eventually { state() eq '2 0' && $up->now == 2 } 'limit reached';
my $leaving = streams('2 1', '-m', 1, '/?nonce=leaving');
eventually { state() eq '2 0' } 'queued request removed', 5;
is(statuses($leaving), '000', 'no response sent');

# or one stream, while others of the connection go on

my $behind = streams('2 3', '-m', 5, '/?nonce=before', '--next',
    '-m', 1, '/?nonce=reset', '--next', '-m', 5, '/?nonce=after');
eventually { state() eq '2 2' } 'one stream reset', 5;
$up->release_all;
is(join(' ', sort split ' ', statuses($behind)), '000 200 200',
    'other streams served');
is(statuses($_), '200', 'earlier streams served') for @held;
is(scalar(grep { $_ =~ /^(?:leaving|reset)$/ } $up->order), 0,
    'no aborted request at backend');

# while it is served

my $served = streams('1 0', '-m', 1, '/?hang=1');
eventually { $up->now == 0 && state() eq '0 0' } 'served client left', 5;
is(statuses($served), '000', 'no response sent');
is($up->peak, 2, 'peak is the limit');

done_testing();

my $n;

# A curl that asks for all of these paths at once, over one connection.
sub h3 {
    my @each = ('--http3-only', '-ksS', '-w', '%{http_code}\n');
    my @argv = map {
        m{^/} ? ('-o', '/dev/null', 'https://127.0.0.1:' . $node->port . $_)
            : $_ eq '--next' ? ($_, @each) : $_
    } @_;
    my $log = "$dir/curl" . ++$n;
    my $process = Dsem::Process->spawn(name => "curl$n", log => $log,
        argv => [@curl, '-Z', @each, @argv]);
    return { process => $process, log => $log };
}

# The same for several streams, which have come when the state is this one, and
# those that are served are at the backend. curl 8.14 may open a connection and
# send nothing over it, whoever serves it, and the time of "-m" begins before
# the connection is open: then once more.
sub streams {
    my ($reached, @request) = @_;
    my $before = state();
    for (1 .. 20) {
        my $curl = h3(@request);
        my $there;
        wait_for {
            $there = state() eq $reached && $reached =~ /^@{[ $up->now ]} /;
            $there || !$curl->{process}->alive;
        } 15;
        if ($there) {
            pass "streams have come: $reached";
            return $curl;
        }
        wait_for { state() eq $before } 15, 'leaving clients removed';
    }
    die 'no curl has sent its requests';
}

# The statuses that it saw, 000 where there was none.
sub statuses {
    my ($curl) = @_;
    $curl->{process}->wait_exit(15);
    open my $fh, '<', $curl->{log} or die "$curl->{log}: $!";
    return join ' ', map { /^(\d{3})$/ ? $1 : () } <$fh>;
}

sub logged {
    my @lines;
    wait_for {
        open my $fh, '<', $node->dir . '/version.log' or return;
        chomp(@lines = <$fh>);
        @lines;
    } 5, 'the access log';
    return @lines;
}

sub values_logged {
    open my $fh, '<', $node->dir . '/values.log' or return;
    # without one that is not whole yet
    chomp(my @lines = grep { /\n\z/ } <$fh>);
    return sort @lines;
}

# permits held and tickets waiting
sub state { return $t->state->counts('streams') }
