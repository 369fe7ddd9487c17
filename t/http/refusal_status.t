#!/usr/bin/perl

# The answer of a refused request is the one that the configuration gives:
# one for all, or one for each reason, inherited like everything else.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
$t->redis;
my $up = $t->upstream;

my $node = $t->node('n1', <<'EOF_CONF');
dsem one limit=$http_limit queue=10 timeout=$http_deadline;
proxy_pass_request_headers off;
server {
    listen 127.0.0.1:%%PORT%%;
    location /default/ {
        proxy_pass http://%%UPSTREAM%%;
    }
    location /all/ {
        dsem_status 429;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /each/ {
        dsem_status 500 full=429 timeout=504 error=502;
        proxy_pass http://%%UPSTREAM%%;
        location /each/some {
            dsem_status 418 timeout=424;
            proxy_pass http://%%UPSTREAM%%;
        }
        location /each/inherited {
            proxy_pass http://%%UPSTREAM%%;
        }
    }
    location /odd/ {
        dsem_status 599;
        proxy_pass http://%%UPSTREAM%%;
    }
}
EOF_CONF

my $holder = $node->begin('/default/?hang=1', Limit => 1,
    Deadline => '5m');
wait_for { $up->now == 1 };

# refused by reason: full (heavier than the limit), timeout, error
my %expected = (
    '/default/' => [503, 503, 503],
    '/all/' => [429, 429, 429],
    '/each/' => [429, 504, 502],
    '/each/some' => [418, 424, 418],
    '/each/inherited' => [429, 504, 502],
    '/odd/' => [599, 599, 599],
);
my %got;
for my $path (sort keys %expected) {
    $got{$path}{$_} = $node->get($path, Limit => $_, Deadline => '5m')
        for 0, 'none';
}
# all wait at the same time; a limit of 0 would reject them
$got{$_}{1} = $node->begin($_, Limit => 1, Deadline => '300ms')
    for sort keys %expected;
for my $path (sort keys %expected) {
    my @got = map { $got{$path}{$_}->wait->status } 0, 1, 'none';
    is_deeply(\@got, $expected{$path}, "statuses of $path");
}
wait_for { $node->access_log == 18 };
my %reason;
$reason{ $_->{dsem_status} }++ for $node->access_log;
is_deeply(\%reason, { REJECTED => 6, TIMEOUT => 6, ERROR => 6 },
    'statuses by reason');

$up->release_all;
is($holder->wait->status, 200, 'holder served');
is($up->started, 1, 'only holder at backend');

done_testing();
