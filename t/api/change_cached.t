#!/usr/bin/perl

# A long answer is repeated for a tenth of a second, but not after a change by
# any worker of the node: whichever makes the change, and whichever answers.

use lib 't/lib';
use Dsem::Test;

my ($NAMES, $ROUNDS) = (200, 20);

my $t = Dsem::Test->new(lease => 60);
my $redis = $t->redis;

my $node = $t->node('a', <<'EOF_CONF');
worker_processes 2;
dsem_redis_timeout 30s;
server {
    listen 127.0.0.1:%%PORT%% reuseport;
    location / {
        dsem a limit=3;
    }
    location /dsem/ {
        dsem_api write=on;
    }
}
EOF_CONF

sub ordered {
    my $body = $node->get('/dsem/semaphores')->body;
    return $body =~ /"name":"n000".*?"order":\{"limit":(\d+)/ ? $1 : 0;
}

wait_for { $t->state->session_count == 2 } 15, 'both workers';
$redis->cmd('HSET', 'dsem:{0}', map { sprintf('order:n%03d', $_), '3 0' }
    0 .. $NAMES - 1);
# of each worker, one of which has the first connection
eventually { !grep { ordered() != 3 } 1 .. 10 } 'figures of all names';

my @shown = map {
    my $limit = $_;
    $node->get('/dsem/semaphores/n000', -method => 'PATCH',
        'Content-Type' => 'application/json', -body => qq({"limit": $limit}));
    ordered();
} 10 .. 9 + $ROUNDS;
is "@shown", join(' ', 10 .. 9 + $ROUNDS), 'each change shown';

done_testing();
