#!/usr/bin/perl

# proxy_next_upstream: a request that tries several backends uses one permit
# from the first try to the last. The backends see no more concurrent requests
# than the limit.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
$t->redis;
my $up = $t->upstream(ports => 2);

my $node = $t->node('n1', <<'EOF_CONF');
worker_connections 2048;
dsem one limit=2 queue=100 timeout=30s;
proxy_next_upstream error timeout http_500 invalid_header;
add_header X-Tries $upstream_addr always;
add_header X-Dsem $dsem_status always;
server {
    listen 127.0.0.1:%%PORT%%;
    location /refused {
        proxy_pass http://refused;
    }
    location /tries {
        proxy_pass http://tries;
    }
    location /tries/late {
        proxy_read_timeout 200ms;
        proxy_pass http://tries;
    }
}
upstream refused {
    server 127.0.0.1:%%PORT2%% max_fails=0;
    server %%UPSTREAM1%% max_fails=0;
}
upstream tries {
    server %%UPSTREAM1%% max_fails=0;
    server %%UPSTREAM2%% max_fails=0;
}
EOF_CONF

# both tries fail in the same way, so that each is seen

for my $case (['close=1', 502], ['rst=1', 502], ['status=500', 500],
    ['cut=20', 502], ['hang=1', 504, '/late'])
{
    my ($args, $status, $path) = (@$case, '');
    $up->reset;
    my $request = $node->get("/tries$path?$args");
    is($request->status, $status, "$args: both servers fail");
    is($up->started, 2, 'both servers tried');
    is($request->header('X-Dsem'), 'PASSED', 'one permit requested');
    eventually { state() eq '0 0' } 'nothing left';
}

# one permit during the first try, and the same one during the second

$up->reset;
my $request = $node->begin('/tries?hang=1&status=500');
eventually { $up->started == 1 } 'first server tried';
is(state(), '1 0', 'one permit held');
$up->release(1);
eventually { $up->started == 2 } 'second server tried';
is(state(), '1 0', 'same permit held');
$up->release(1);
is($request->wait->status, 500, 'both servers fail');
is($up->peak, 1, 'one call per permit');
eventually { state() eq '0 0' } 'nothing left';

# many at once

for my $case (['/refused?t=2', { 200 => 100 }, 100],
    ['/tries?close=1', { 502 => 100 }, 200],
    ['/tries?status=500&t=2', { 500 => 100 }, 200])
{
    my ($path, $statuses, $started) = @$case;
    $up->reset;
    my $load = $t->load(urls => [$node->url($path)], clients => 10,
        requests => 100);
    is_deeply($load->{statuses}, $statuses, "$path: many at once");
    is($up->started, $started, 'retries as configured');
    is($up->peak, 2, 'two at a time') if $path =~ /t=2/;
    cmp_ok($up->peak, '<=', 2, 'limit never exceeded');
    eventually { state() eq '0 0' } 'nothing left';
}

done_testing();

# permits held and tickets waiting
sub state { return $t->state->counts('one') }
