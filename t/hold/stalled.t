#!/usr/bin/perl

# "worker_shutdown_timeout" ends while a worker that is to exit stands still.
# When it goes on its holders are told all the same, before nginx closes their
# connections. A request that has not begun to hold by then does not: its
# program would begin for nothing.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
my $redis = $t->redis;

my $node = $t->node('a', <<'EOF_CONF');
%%GLOBALS%%
worker_processes 1;
worker_shutdown_timeout 1s;
events { }
http {
    %%HTTP%%
    dsem_redis %%REDIS%%;
    dsem_node %%NODE%%;
    server {
        listen 127.0.0.1:%%PORT%%;
        location /jobs {
            dsem jobs limit=2;
            dsem_hold;
        }
        location /late {
            dsem late limit=1;
            dsem_wait_body off;
            dsem_hold;
        }
    }
}
EOF_CONF

# Holders of a worker that begins to exit, and a request that has a permit and
# waits for its body.
sub exiting {
    my @jobs = map { $node->hold('/jobs') } 1 .. 2;
    my $posted = $node->raw;
    $posted->send("POST /late HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n1");
    wait_for { $t->state->held('late') == 1 } 15, 'a permit before the body';

    my ($old) = $node->workers;
    $node->reload;
    wait_for { grep { $_ == $old } $node->draining } 15, 'the worker to exit';
    return ($old, $posted, @jobs);
}

sub ended {
    my ($posted, @jobs) = @_;
    my @ends = map { $_->read_eof } @jobs;
    $posted->send('2');
    my $late = $posted->read_eof;
    wait_for { !$t->state->held('jobs') && !$t->state->held('late') } 15,
        'all permits back';
    return ($late, @ends);
}

my ($old, @clients) = exiting();
$node->freeze($old);
my $over = now + 1.2;
wait_for { now > $over } 15, 'the end of worker_shutdown_timeout';
$node->thaw($old);
my (undef, @ends) = ended(@clients);

# where the machine stands still for half a second, nginx is faster
my $late;
for (1 .. 5) {
    (undef, @clients) = exiting();
    ($late) = ended(@clients);
    last if $late;
}

is scalar(grep { !/closing\n\r\n0\r\n\r\n\z/ } @ends), 0, 'holders are told';
like $late, qr{^HTTP/1.1 503 }, 'a late one gets no permit';
like $late, qr/^Retry-After: 0\r$/m, 'and may ask the next worker';

$t->done;
