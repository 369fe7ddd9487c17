#!/usr/bin/perl

# Who is refused for want of capacity is told when to come back: a number of
# seconds, or nothing with "off". Not who is refused for trouble, who is
# served after all, or whose answer is good.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
$t->redis;
my $up = $t->upstream;

my $node = $t->node('n1', <<'EOF_CONF');
dsem_log_level info;
dsem_retry_after 7s;
dsem_max_waiting 2;
dsem one limit=1;
add_header X-Dsem $dsem_status always;
proxy_intercept_errors on;
server {
    listen 127.0.0.1:%%PORT%%;
    location /7s {
        proxy_pass http://%%UPSTREAM%%;
    }
    location /7s/late {
        dsem one limit=1 queue=5 timeout=1s;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /7s/other_status {
        dsem_status 429;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /7s/page {
        error_page 503 /page;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /7s/named_page {
        error_page 503 @page;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /7s/proxied_page {
        error_page 503 @proxied;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /7s/page_of_its_own_mind {
        error_page 503 @busy;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /7s/crowded {
        dsem two limit=1 queue=5 timeout=30s;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /7s/queue {
        dsem two limit=1 queue=5 timeout=30s;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /1h {
        dsem_retry_after 1h;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /1500ms {
        dsem_retry_after 1500ms;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /auto {
        dsem_retry_after auto;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /off {
        dsem_retry_after off;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /none/dry_run {
        dsem_dry_run on;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /none/fallback {
        error_page 503 =200 /page;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /none/error {
        dsem one limit=$arg_limit;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /none/heavy {
        dsem heavy limit=1 weight=$arg_weight;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /none/other_errors {
        dsem free limit=1;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /page {
        dsem off;
        root %%DIR%%;
        try_files /page.html =404;
    }
    location @page {
        dsem off;
        root %%DIR%%;
        try_files /page.html =404;
    }
    location @proxied {
        dsem off;
        proxy_pass http://%%UPSTREAM%%;
    }
    location @busy {
        dsem off;
        proxy_pass http://127.0.0.1:%%PORT2%%;
    }
}
server {
    listen 127.0.0.1:%%PORT2%%;
    dsem off;
    add_header Retry-After 99 always;
    return 503;
}
EOF_CONF

open my $page, '>', $node->dir . '/page.html' or die "page.html: $!";
print $page "come back later\n";
close $page;

my $holder = $node->begin('/7s?hang=1');
wait_for { $up->now == 1 };
my $late = $node->begin('/7s/late');

sub told {
    my ($path, $status, $verdict, $seconds, $request) = @_;
    my $answer = $request ? $request->wait : $node->get($path);
    is($answer->status . ' ' . ($answer->header('X-Dsem') // ''),
        "$status $verdict", "$path: $verdict");
    is($answer->header('Retry-After'), $seconds,
        defined $seconds ? "told $seconds" : 'no Retry-After');
    return $answer;
}

told('/7s', 503, 'REJECTED', 7);
told('/7s/other_status', 429, 'REJECTED', 7);
for my $path ('/7s/page', '/7s/named_page') {
    is(told($path, 503, 'REJECTED', 7)->body, "come back later\n",
        'error page sent');
}
told('/7s/proxied_page', 503, 'REJECTED', 7);
told('/7s/page_of_its_own_mind', 503, 'REJECTED', 99);
told('/1h', 503, 'REJECTED', 3600);
told('/1500ms', 503, 'REJECTED', 2);
told('/off', 503, 'REJECTED', undef);
for my $case (['/none/dry_run?hang=1', 200],
    ['/none/dry_run?hang=1&status=503', 503])
{
    my ($path, $status) = @$case;
    my $before = dry_runs();
    my $request = $node->begin($path);
    wait_for { dry_runs() > $before };
    wait_for { $up->release_nonce($request->nonce) };
    told($path, $status, 'REJECTED_DRY_RUN', undef, $request);
}
told('/none/fallback', 200, 'REJECTED', undef);
told('/none/error?limit=x', 503, 'ERROR', undef);
told('/none/heavy?weight=2', 503, 'REJECTED', undef);
told('/none/other_errors?status=503', 503, 'PASSED', undef);
told('/auto', 503, 'REJECTED', 1);
told('/7s/late', 503, 'TIMEOUT', 7, $late);

# as many wait as dsem_max_waiting allows

my @waiting = map {
    my $request = $node->begin('/7s/queue?hang=1');
    wait_for { two() eq "1 $_" };
    $request;
} 0 .. 2;
told('/7s/crowded', 503, 'REJECTED', 7);
$_->close for @waiting;

$up->release_all;
is($holder->wait->header('Retry-After'), undef, 'served without Retry-After');

# the same while Redis is away

my $away = $t->node('n2', <<'EOF_CONF');
dsem_redis 127.0.0.1:1;
dsem_redis_connect_timeout 100ms;
dsem_retry_after 7s;
dsem one limit=1;
add_header X-Dsem $dsem_status always;
server {
    listen 127.0.0.1:%%PORT%%;
    location /local {
        proxy_pass http://%%UPSTREAM%%;
    }
    location /reject {
        dsem_on_error reject;
        proxy_pass http://%%UPSTREAM%%;
    }
}
EOF_CONF

$holder = $away->begin('/local?hang=1');
wait_for { $up->now == 1 };
is($away->get('/local')->header('X-Dsem'), 'REJECTED', 'unavailable: rejected');
is($away->get('/local')->header('Retry-After'), 7, 'Retry-After is 7');
is($away->get('/reject')->header('X-Dsem'), 'ERROR', 'unavailable: undecided');
is($away->get('/reject')->header('Retry-After'), undef, 'no Retry-After');
$up->release_all;
is($holder->wait->status, 200, 'holder served');

done_testing();

sub dry_runs { scalar $node->grep_log(qr/dsem rejected, dry run/) }
sub two { $t->state->counts('two') }
