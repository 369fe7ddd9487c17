#!/usr/bin/perl

# A node has counted more names than an answer of the API has rows: the rest is
# in the row of the other names, and the answer is marked as partial. A literal
# name has a row in any case. The answers are made in pieces: another request
# that comes behind is answered before their end, and a worker that exits answers
# first.

use lib 't/lib';
use Cpanel::JSON::XS qw(decode_json);

use Dsem::Test;

my ($NAMES, $ROWS) = (2100, 2000);

my $t = Dsem::Test->new;
my $redis = $t->redis;

my $node = $t->node('a', <<'EOF_CONF');
worker_processes 1;
dsem_zone_size 16m;
location / {
    dsem "name$arg_n" limit=4 queue=1;
    empty_gif;
}
location /literal {
    dsem zzz limit=4;
    empty_gif;
}
location /other {
    empty_gif;
}
location /dsem/ { dsem_api; }
location /write/ { dsem_api write=on; }
EOF_CONF

my $load = $t->load(clients => 20, requests => $NAMES,
    request => sub { $node->url("/?n=$_[0]") });
is_deeply $load->{statuses}, { 200 => $NAMES }, 'all served';
is $node->get('/literal')->status, 200, 'literal name';

my $json = decode_json($node->get('/dsem/semaphores')->body);
is scalar(@{ $json->{semaphores} }), $ROWS, 'no more rows';
is $json->{semaphores}[-1]{name}, 'zzz', 'one for the literal name';
ok $json->{fleet}{partial}, 'partial';
my $passed = $json->{other}{passed};
cmp_ok $passed, '>=', $NAMES - $ROWS, 'the rest is counted';
$passed += $_->{local}{passed} // 0 for @{ $json->{semaphores} };
is $passed, $NAMES + 1, 'each request is counted once';
my $hour = $json->{other}{last_hour}{passed};
$hour += $_->{local}{last_hour}{passed} // 0 for @{ $json->{semaphores} };
is $hour, $NAMES + 1, 'and in the last hour';

# two connections that the worker knows; it is frozen

sub connections {
    my @raw = map { $node->raw } 1, 2;
    for (@raw) {
        $_->send("GET /other HTTP/1.1\r\nHost: x\r\n\r\n");
        $_->read_until(qr/GIF89a/);
    }
    # the figures of the fleet are there
    $node->get('/dsem/semaphores');
    $node->freeze(($node->workers)[0]);
    return @raw;
}

# both requests are there when the worker goes on, the second one behind

sub order {
    my ($path) = @_;
    my @raw = connections();
    # of a kind that was not asked for before: there is no text to repeat
    $raw[0]->send("HEAD $path?last HTTP/1.1\r\nHost: x\r\n"
        . "Accept: application/openmetrics-text\r\n\r\n");
    $raw[1]->send("GET /other?last HTTP/1.1\r\nHost: x\r\n\r\n");
    $node->thaw(($node->workers)[0]);
    my @last;
    wait_for {
        @last = map { $_->{request_uri} =~ /(.*)\?last$/ } $node->access_log;
        @last == 2;
    } 15, 'both answered';
    $node->clear_logs;
    return @last;
}
for my $path (qw(/write/semaphores /dsem/metrics)) {
    is_deeply [ order($path) ], ['/other', $path],
        "$path: another request in between";
}

# and then the end

my @raw = connections();
my $worker = ($node->workers)[0];
$_->send("GET /write/semaphores HTTP/1.1\r\nHost: x\r\n\r\n") for @raw;
$node->signal('QUIT');
wait_for { $node->grep_log(qr/SIGQUIT/) } 15, 'the master';
$node->thaw($worker);
ok $_->read_until(qr/(?!)/) =~ /^HTTP\S+ 200.*"zzz".*"buckets":.*\}\s/s,
    'answered to the end' for @raw;
wait_for { !$node->alive } 15, 'exit';

$t->done;
