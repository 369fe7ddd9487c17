#!/usr/bin/perl

# An old worker ends its holders shortly before "worker_shutdown_timeout" is
# over, also one that has waited. Those that still wait for a permit are refused
# then: their connections do not end without an answer, nor do those that come to
# wait later.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
my $redis = $t->redis;

my $conf = <<'EOF_CONF';
%%GLOBALS%%
worker_processes 1;
worker_shutdown_timeout 2s;
events { }
http {
    %%HTTP%%
    dsem_redis %%REDIS%%;
    dsem_node %%NODE%%;
    server {
        listen 127.0.0.1:%%PORT%%;
        location /jobs {
            dsem jobs limit=1 queue=10 timeout=60s;
            dsem_status 503 error=500;
            dsem_hold;
        }
        location /waited {
            dsem waited limit=1 queue=10 timeout=60s;
            dsem_hold;
        }
    }
}
EOF_CONF

my $node = $t->node('a', $conf);
my $other = $t->node('b', $conf);

# the permit is elsewhere, and stays there

my $holder = $other->hold('/jobs');

sub waited {
    my $first = $node->hold('/waited');
    my $next = $node->ask('/waited');
    eventually { $t->state->waiting('waited') == 1 } 'one waits';
    $first->close;
    like $next->read_until(qr/granted\n/), qr/granted/, 'and has its permit';
    return $next;
}

sub exiting {
    my @waits = map { $node->ask('/jobs') } 1 .. 2;
    eventually { $t->state->waiting('jobs') == 2 } 'two wait';
    # the old worker has it: it reads the body
    my $posted = $node->raw;
    $posted->send("POST /jobs HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n"
        . "Expect: 100-continue\r\n\r\n");
    $posted->read_until(qr/100 Continue\r\n\r\n/);
    $posted->send('1');
    my ($old) = $node->workers;
    $node->clear_logs;
    $node->reload;
    wait_for { grep { $_ == $old } $node->draining } 15, 'the worker to exit';
    return ($posted, @waits);
}

my ($late, $closing, @ends);
for (1 .. 5) {
    my $waited = waited();
    my ($posted, @waits) = exiting();
    $closing = $waited->read_eof;
    @ends = map { $_->read_eof } @waits;
    $posted->send('2');
    $late = $posted->read_eof;
    wait_for { !$node->draining } 15, 'the end of the old worker';
    # where the machine stands still for a second, nginx is faster
    last if $late;
}

like $closing, qr/closing\n\r\n0\r\n\r\n\z/, 'a holder is told';
for (@ends, $late) {
    like $_, qr{^HTTP/1.1 500 }, 'refused';
    like $_, qr/^Dsem-Status: ERROR\r$/m, 'not for want of a permit';
    like $_, qr/^Retry-After: 0\r$/m, 'the next worker can be asked';
}
is scalar(grep { $_->{dsem_status} eq 'ERROR' } $node->access_log), 3,
    'three errors logged';
my ($post) = grep { $_->{request_method} eq 'POST' } $node->access_log;
is $post->{dsem_wait_time}, '0.000', 'the time of the body is no wait';
is scalar($node->grep_log(
    qr/dsem error: worker exits, request cannot wait for semaphore "jobs"/)),
    3, 'and why';
is $t->state->waiting('jobs'), 0, 'none has a place';
is $t->state->held('jobs'), 1, 'the holder keeps its permit';

$holder->close;
$t->done;
