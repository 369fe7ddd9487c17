#!/usr/bin/perl

# A refusal can be turned into any answer: each reason has its status, each
# status its page (a file, a named location, a redirect, a 200), and every
# variable is there in headers, map, if and the log, on the page too.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
$t->redis;
my $up = $t->upstream;

my $node = $t->node('n1', <<'EOF_CONF');
map $dsem_status $told {
    ~^(PASSED|QUEUED)$  in;
    ''                  free;
    default             out;
}
map $dsem_status $refused {
    REJECTED  1;
    TIMEOUT   1;
    ERROR     1;
    default   0;
}
log_format short '$status [$dsem_status] $told';
access_log %%DIR%%/short.log short;
access_log %%DIR%%/refused.log short if=$refused;
dsem one limit=$http_limit queue=10 timeout=$http_timeout;
dsem_status 500 full=429 timeout=504 error=502;
add_header X-Always "$dsem_status $dsem_name $dsem_limit $told" always;
add_header X-Good "$dsem_status $told";
server {
    listen 127.0.0.1:%%PORT%%;
    location / {
        proxy_pass http://%%UPSTREAM%%;
    }
    location /off {
        dsem off;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /page/ {
        error_page 429 /page.html;
        error_page 502 504 @page;
        proxy_pass http://%%UPSTREAM%%;
    }
    location = /page.html {
        root %%DIR%%;
    }
    location @page {
        if ($dsem_status = TIMEOUT) {
            return 504 "later, $dsem_name: $dsem_wait_time\n";
        }
        if ($dsem_status = ERROR) {
            return 502 "sorry\n";
        }
        return 500;
    }
    location /good/ {
        error_page 429 504 =200 /empty.json;
        error_page 502 = @own;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /empty.json {
        return 200 '{"refused":"$dsem_status"}';
    }
    location @own {
        return 204;
    }
    location /elsewhere/ {
        error_page 429 504 502 =302 http://elsewhere/$dsem_status;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /stale/ {
        error_page 429 504 502 =203 @other;
        proxy_pass http://%%UPSTREAM%%;
    }
    location @other {
        proxy_pass http://%%UPSTREAM%%;
    }
}
EOF_CONF

open my $page, '>', $node->dir . '/page.html' or die "page.html: $!";
print $page "a page\n";
close $page;

# with a permit and without a limit

is(told('/', 2), '200 PASSED one 2 in, PASSED in', 'request passed');
is(told('/off', 2), '200 free, free', 'unlimited request');
is(told('/?status=404', 2), '404 PASSED one 2 in, -', 'missing file');

# full (heavier than the limit), timeout, no number

my $holder = $node->begin('/?hang=1', Limit => 1, Timeout => '60s');
wait_for { $up->now == 1 };

my %expected = (
    '/' => ['429 REJECTED one 0 out, -', '504 TIMEOUT one 1 out, -',
        '502 ERROR one  out, -'],
    '/page/' => ['429 REJECTED one 0 out, -', '504 TIMEOUT one 1 out, -',
        '502 ERROR one  out, -'],
    '/good/' => ['200 REJECTED one 0 out, REJECTED out',
        '200 TIMEOUT one 1 out, TIMEOUT out', '204 ERROR one  out, ERROR out'],
    '/elsewhere/' => ['302 REJECTED one 0 out, REJECTED out',
        '302 TIMEOUT one 1 out, TIMEOUT out',
        '302 ERROR one  out, ERROR out'],
    '/stale/' => ['203 REJECTED one 0 out, -',
        '203 TIMEOUT one 1 out, -', '203 ERROR one  out, -'],
);
my %got;
for my $path (sort keys %expected) {
    $got{$path}{$_} = get($path, $_) for 0, 'none';
}
# all wait at the same time; a limit of 0 would reject them
$got{$_}{1} = $node->begin($_, Limit => 1, Timeout => '300ms')
    for sort keys %expected;
for my $path (sort keys %expected) {
    my @got = map { answer($got{$path}{$_}->wait) } 0, 1, 'none';
    is_deeply(\@got, $expected{$path}, "answers of $path");
}

is($got{'/page/'}{0}->body, "a page\n", 'static page sent');
like($got{'/page/'}{1}->body, qr/^later, one: (?!0\.[0-2])\d+\.\d{3}$/,
    'page with variables');
is($got{'/page/'}{none}->body, "sorry\n", 'page chosen by if');
is($got{'/good/'}{1}->body, '{"refused":"TIMEOUT"}', 'page with status 200');
is($got{'/elsewhere/'}{0}->header('Location'), 'http://elsewhere/REJECTED',
    'redirect with reason');
like($got{'/stale/'}{1}->body, qr{^\S+ /stale/$},
    'page from unlimited backend');
is(state(), '1 0', 'no further permit requested');

$up->release_all;
is($holder->wait->status, 200, 'holder served');

# in logs

wait_for { lines('short.log') == 19 };
is((lines('short.log'))[0], '200 [PASSED] in', 'request logged');
is((lines('short.log'))[1], '200 [-] free', 'unlimited request logged');
is(scalar lines('refused.log'), 15, 'refusal log complete');
is(scalar(grep { /\[(?:REJECTED|TIMEOUT|ERROR)\] out$/ }
    lines('refused.log')), 15, 'reasons logged');

done_testing();

sub get {
    my ($path, $limit) = @_;
    return $node->get($path, Limit => $limit, Timeout => '60s');
}

sub told { answer(get(@_)) }

sub answer {
    my ($request) = @_;
    return join ' ', $request->status, ($request->header('X-Always') // '-')
        . ', ' . ($request->header('X-Good') // '-');
}

sub lines {
    my ($log) = @_;
    open my $fh, '<', $node->dir . "/$log" or return;
    chomp(my @lines = <$fh>);
    return @lines;
}

# permits held and tickets waiting
sub state { return $t->state->counts('one') }
