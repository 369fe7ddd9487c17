#!/usr/bin/perl

# What a request was told, in the access log and in headers: every variable
# after every verdict.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $up = $t->upstream;

my $node = $t->node('n1', <<'EOF_CONF');
dsem_redis_connect_timeout 300ms;
dsem_on_error reject;
add_header X-Dsem "$dsem_status,$dsem_name,$dsem_queue_position,$dsem_limit,$dsem_in_use" always;
add_header X-Wait $dsem_wait_time always;
server {
    listen 127.0.0.1:%%PORT%%;
    location /seen {
        dsem "a name" limit=3 weight=2 queue=2 timeout=1s;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /patient {
        dsem "a name" limit=3 weight=2 queue=2 timeout=30s;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /number {
        dsem number limit=$arg_limit;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /free {
        proxy_pass http://%%UPSTREAM%%;
    }
}
EOF_CONF

sub told {
    my ($request, $what, $expected, $low, $high) = @_;
    my $header = $request->wait->header('X-Dsem');
    is($header, $expected, "$what: header");
    my $line = $node->logged($request);
    is(join(',', map { $line->{"dsem_$_"} }
        qw(status name queue_position limit in_use)), $expected,
        "$what: log");
    my $wait = $request->header('X-Wait');
    is($line->{dsem_wait_time}, $wait // '', "$what: same wait in both");
    return unless defined $low;
    like($wait, qr/^\d+\.\d{3}$/, "$what: wait in seconds");
    cmp_ok($wait, '>=', $low, "$what: wait not shorter");
    cmp_ok($wait, '<', $high // $request->latency + 0.9,
        "$what: wait not longer");
}

wait_for { $t->state->session_count == 1 };
my $begun = now;
my $passed = $node->begin('/patient?hang=1');
wait_for { $up->now == 1 };
my $arrived = now - $begun;
my ($queued, $leaver) = map {
    my $request = $node->begin('/patient');
    wait_for { waiting() == $_ };
    $request;
} 1, 2;

told($node->get('/patient'), 'rejected', 'REJECTED,a%20name,,3,2', 0);
$leaver->close;
wait_for { waiting() == 1 };
my $left = $node->logged($leaver);
is(join(',', map { $left->{$_} } qw(status dsem_status dsem_name
    dsem_queue_position dsem_limit dsem_in_use)),
    '499,ABORTED,a%20name,2,3,2', 'client left: log');
like($left->{dsem_wait_time}, qr/^\d+\.\d{3}$/, 'client left: its wait');
told($node->begin('/seen'), 'timeout', 'TIMEOUT,a%20name,2,3,2', 0.999);
$up->release_all;
told($queued, 'queued', 'QUEUED,a%20name,1,3,2', 0.999);
told($passed, 'passed', 'PASSED,a%20name,,3,2', 0, $arrived + 0.5);

told($node->get('/number?limit=x'), 'bad number', 'ERROR,number,,,', 0);
told($node->get('/number'), 'empty limit', ',,,,');
told($node->get('/free'), 'not limited', ',,,,');

# what is not known stays empty when Redis is away

$redis->stop;
wait_for { $node->get('/seen')->header('X-Dsem') =~ /^ERROR/ };
told($node->get('/seen'), 'away', 'ERROR,a%20name,,3,', 0);
$redis->start;

done_testing();

sub waiting { return $t->state->waiting('a%20name') }
