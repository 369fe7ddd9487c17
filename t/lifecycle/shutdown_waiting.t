#!/usr/bin/perl

# Requests that wait in an old worker are refused shortly before nginx closes all
# its connections ("worker_shutdown_timeout"), which would end them without a
# response. So is one that comes to wait later. One that finds a permit then has
# it, and one that has waited and runs is left alone.

use lib 't/lib';
use Dsem::Http2;
use Dsem::Test;

my $t = Dsem::Test->new;
$t->redis;
my $up = $t->upstream;

my $conf = <<'EOF_CONF';
%%GLOBALS%%
worker_processes 1;
worker_shutdown_timeout 2s;
events { }
http {
    %%HTTP%%
    dsem_redis %%REDIS%%;
    dsem_node %%NODE%%;
    dsem_status 503 error=500;
    proxy_set_header X-Sem $dsem_name;
    server {
        listen 127.0.0.1:%%PORT%%;
        listen 127.0.0.1:%%PORT2%% http2;
        location /full {
            dsem full limit=1 queue=10 timeout=60s;
            proxy_pass http://%%UPSTREAM%%;
        }
        location /waited {
            dsem waited limit=1 queue=10 timeout=60s;
            proxy_pass http://%%UPSTREAM%%;
        }
        location /free {
            dsem free limit=1 queue=10 timeout=60s;
            proxy_pass http://%%UPSTREAM%%;
        }
    }
}
EOF_CONF

my $node = $t->node('a', $conf);
my $other = $t->node('b', $conf);

# the permit is elsewhere, and stays there

my $holder = $other->begin('/full?hang=1');
wait_for { $up->now('full') == 1 } 15, 'one at the backend';

sub waited {
    my $first = $node->begin('/waited?hang=1');
    wait_for { $up->now('waited') == 1 } 15, 'the first of two';
    my $next = $node->begin('/waited?hang=1');
    wait_for { $t->state->waiting('waited') == 1 } 15, 'the next one waits';
    $first->abort;
    wait_for { $t->state->waiting('waited') == 0 && $up->now('waited') == 1 }
        15, 'and runs';
    return $next;
}

sub posted {
    my $raw = $node->raw;
    $raw->send("POST $_[0] HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n"
        . "Connection: close\r\n\r\n1");
    return $raw;
}

sub exiting {
    my @posted = map { posted($_) } '/full', '/free';
    my $wait = $node->begin('/full');
    my $h2 = Dsem::Http2->new($node->raw(2));
    my @streams = map { $h2->get('/full') } 1 .. 2;
    $h2->ping;
    wait_for { $t->state->waiting('full') == 3 } 15, 'three wait';
    my ($old) = $node->workers;
    $node->clear_logs;
    $node->reload;
    wait_for { grep { $_ == $old } $node->draining } 15, 'the worker to exit';
    return (\@posted, $wait, $h2, @streams);
}

my ($running, @late, @waits);
for (1 .. 5) {
    my $next = waited();
    my ($posted, $wait, $h2, @streams) = exiting();
    @waits = ($wait->wait->status, map { $h2->status($_) } @streams);
    $h2->close;
    $running = $up->now('waited');
    $_->send('2') for reverse @$posted;
    @late = map { $_->read_eof } @$posted;
    wait_for { !$node->draining } 15, 'the end of the old worker';
    $next->close;
    # where the machine stands still for half a second, nginx is faster
    last if $running && !grep { !$_ } @late;
}

is "@waits", '500 500 500', 'waiting requests are refused';
is $running, 1, 'one that has waited runs on';
like $late[0], qr{^HTTP/1.1 500 }, 'a late one is refused';
unlike $late[0], qr/^Retry-After/m, 'with no time to come back at';
like $late[1], qr{^HTTP/1.1 200 }, 'a late one has the free permit';

my @log = $node->access_log;
is scalar(grep { $_->{dsem_status} eq 'ERROR' } @log), 4, 'four errors logged';
is scalar(grep { $_->{dsem_status} eq 'ABORTED' } @log), 0, 'no client left';
is scalar($node->grep_log(
    qr/dsem error: worker exits, request cannot wait for semaphore "full"/)),
    4, 'and why';
is $t->state->waiting('full'), 0, 'none has a place';
is $t->state->held('full'), 1, 'the permit stays in use';

$up->release_all;
is $holder->wait->status, 200, 'served to the end';

$t->done;
