#!/usr/bin/perl

# The end of an old worker with "worker_shutdown_timeout 2s": holders of
# "dsem_hold" have their last line after 1 s, other requests wait for half a second
# more, as a permit may come. One that comes to wait just before they are refused
# waits a little longer: it may be the reply of Redis for which it waits.

use lib 't/lib';
use Dsem::Clock;
use Dsem::Test;

my $t = Dsem::Test->new;
my $clock = Dsem::Clock->new($t, monotonic => 1);
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
    dsem_reuse off;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / {
            dsem $arg_name limit=1 queue=10 timeout=60s;
            proxy_pass http://%%UPSTREAM%%;
        }
        location /program {
            dsem program limit=1;
            dsem_hold;
        }
    }
}
EOF_CONF

my $node = $clock->node('a', $conf);
my $other = $t->node('b', $conf);

my @names = qw(early one two late);
my %holder = map { $_ => $other->begin("/?name=$_&hang=1") } @names;
wait_for { $up->now == @names } 15, 'all at the backend';
my $program = $node->hold('/program');
my %ask = map { $_ => $node->begin("/?name=$_") } qw(early one two);
my $late = $node->raw;
$late->send("POST /?name=late HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n"
    . "Connection: close\r\n\r\n1");
wait_for { !grep { $t->state->waiting($_) != 1 } keys %ask } 15, 'three wait';

$clock->stop;
my ($old) = $node->workers;
$node->reload;
wait_for { grep { $_ == $old } $node->draining } 15, 'the worker to exit';

$clock->step(0.99);
$holder{early}->abort;
is $ask{early}->wait->status, 200, 'a request has the permit that comes';
is $program->read(0), '', 'and the holder has its own';
$clock->step(0.21);
like $program->read_until(qr/closing\n/), qr/closing/,
    'the holder has its last line';
$holder{one}->abort;
is $ask{one}->wait->status, 200, 'then a request still has the permit that comes';
wait_for { !grep { $t->state->held($_) } 'early', 'one', 'program' } 15, 'all is released';

$clock->step(0.2);
$late->send('2');
wait_for { $t->state->waiting('late') == 1 } 15, 'the late one waits';
$clock->step(0.15);
is $ask{two}->wait->status, 503, 'what waits is refused';
$holder{late}->abort;
like $late->read_eof, qr{^HTTP/1.1 200 }, 'but for the late one';

$clock->go;
$up->release_all;
is $holder{two}->wait->status, 200, 'served to the end';
$t->done;
