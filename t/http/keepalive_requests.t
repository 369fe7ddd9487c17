#!/usr/bin/perl

# Several requests on one connection: each has its own verdict and its own
# permit, pipelined ones come one after the other and wait for nobody but
# their predecessor; the end of the connection takes back what the current
# one has. A client that says no more (half-close) is one that has left, as
# everywhere in nginx.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
$t->redis;
my $up = $t->upstream;

my $node = $t->node('n1', <<'EOF_CONF');
add_header X-Dsem $dsem_status always;
proxy_set_header X-Nonce $arg_nonce;
location / {
    dsem one limit=1 queue=10 timeout=30s;
    proxy_pass http://%%UPSTREAM%%;
}
location /impatient {
    dsem one limit=1;
    proxy_pass http://%%UPSTREAM%%;
}
location /off {
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

# one after the other, and all at once

my $kept = $node->raw;
$kept->send(get('/') . get('/off') . get('/') . post('/', 'body') . get('/'));
my $answers = answers($kept, 5);
is_deeply($answers, ['200 PASSED', '200 ', ('200 PASSED') x 3],
    'five pipelined requests, five verdicts');
is($up->peak, 1, 'one at a time');
eventually { state() eq '0 0' } 'nothing left';

# refused ones and waiting ones between them

my $holder = $node->begin('/?hang=1&nonce=holder');
wait_for { $up->now == 1 };
$up->reset;
$kept->send(get('/impatient') . get('/off?nonce=off') . get('/?nonce=first')
    . get('/?nonce=second'));
is_deeply(answers($kept, 2), ['503 REJECTED', '200 '],
    'rejected, connection kept');
eventually { state() eq '1 1' } 'first of two queued';
my $other = $node->begin('/?nonce=other');
eventually { state() eq '1 2' } 'second client queued';
$up->release_all;
is_deeply(answers($kept, 2), ['200 QUEUED', '200 QUEUED'],
    'both requests served')
    or note(explain($kept));
is($other->wait->status, 200, 'second client served');
is_deeply([$up->order], [qw(off first other second)],
    'second request acquires later');
is($holder->wait->status, 200, 'holder served');
eventually { state() eq '0 0' } 'nothing left';

# the connection ends

my %end = (close => sub { $_[0]->close }, reset => sub { $_[0]->reset },
    'half-close' => sub { $_[0]->shutdown });
for my $way (sort keys %end) {
    $holder = $node->begin('/?hang=1');
    wait_for { $up->now == 1 };
    my $alone = $node->raw->send(get('/?hang=1'));
    eventually { state() eq '1 1' } 'request queued';
    $end{$way}->($alone);
    eventually { state() eq '1 0' } "$way: waiting request removed";
    my $ahead = $node->raw->send(get('/?hang=1') . get('/?hang=1'));
    eventually { state() eq '1 1' } 'request queued, another pipelined';
    $end{$way}->($ahead);
    eventually { state() eq '1 0' } "$way: both requests removed";
    $up->release_all;
    is($holder->wait->status, 200, 'holder served');

    $up->reset;
    my $served = $node->raw->send(get('/?hang=1'));
    wait_for { $up->now == 1 };
    $end{$way}->($served);
    eventually { $up->now == 0 && state() eq '0 0' }
        "$way: served request removed";
}

done_testing();

sub get { "GET $_[0] HTTP/1.1\r\nHost: a\r\n\r\n" }

sub post {
    my ($path, $body) = @_;
    return "POST $path HTTP/1.1\r\nHost: a\r\nContent-Length: "
        . length($body) . "\r\n\r\n$body";
}

# status and verdict of the next n answers
sub answers {
    my ($raw, $n) = @_;
    my $in = '';
    my @heads;
    wait_for {
        $in .= $raw->read(0);
        @heads = $in =~ /(HTTP\/1\.1 .*?\r\n\r\n)/gs;
        @heads >= $n;
    };
    return [map {
        my ($status) = /^HTTP\/1\.1 (\d+)/;
        my ($told) = /^X-Dsem: (\w+)/m;
        "$status " . ($told // '');
    } @heads];
}

# permits held and tickets waiting
sub state { return $t->state->counts('one') }
