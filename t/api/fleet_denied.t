#!/usr/bin/perl

# The user of Redis may not do what the API needs: the API shows what the node
# itself knows, and the log names the cause once. Requests are served by Redis as
# before, on the same connection.

use JSON::PP qw(decode_json);
use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $up = $t->upstream;

my $node = $t->node('a', <<'EOF_CONF');
worker_processes 1;
dsem_reuse off;
add_header X-Status $dsem_status always;
location /reports {
    dsem reports limit=3;
    proxy_pass http://%%UPSTREAM%%;
}
location /dsem/ {
    dsem_api;
}
EOF_CONF

sub served { return $node->get('/reports?t=1')->header('X-Status') }
sub epoch { return join ' ', values %{ $t->state->epochs } }

wait_for { $t->state->session_count == 1 } 15, 'a session';
is served(), 'PASSED', 'request served';
my $epoch = epoch();

$redis->cmd(qw(ACL SETUSER), $redis->user, '-hscan');
for (1 .. 3) {
    my $answer = $node->get('/dsem/semaphores');
    is $answer->status, 200, 'figures of the node shown';
    is decode_json($answer->body)->{fleet}{age}, undef,
        'none of the fleet';
    is served(), 'PASSED', 'request served by redis';
}
is $node->get('/dsem/semaphores/reports')->status, 200,
    'semaphore of the node shown';
is served(), 'PASSED', 'request still served by redis';

my @lines = $node->grep_log(qr/figures of the fleet not readable/);
is scalar(@lines), 1, 'logged once' or diag join "\n", @lines;
like $lines[0],
    qr/\[warn\].*\(.*(?:NOPERM|can't run|no permissions).* from redis/,
    'cause named';
is scalar($node->grep_log(qr/unavailable|lost \(/)), 0, 'redis available';
is epoch(), $epoch, 'connection kept';

$redis->cmd(qw(ACL SETUSER), $redis->user, '+hscan');
eventually {
    defined decode_json($node->get('/dsem/semaphores')->body)->{fleet}{age}
} 'figures of the fleet shown';

$t->done;
