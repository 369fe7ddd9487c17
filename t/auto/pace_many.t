#!/usr/bin/perl

# In a fleet of thousands of workers each of them sends a sample less often than
# every ten seconds, as the reply to the last one says.

use lib 't/lib';
use Dsem::Clock;
use Dsem::Test;

my $t = Dsem::Test->new(lease => 60);
my $clock = Dsem::Clock->new($t, monotonic => 1);
my $redis = $t->redis;
$t->upstream;

my $node = $clock->node('a', <<'EOF_CONF');
worker_processes 1;
dsem_lease 60s;
location / {
    dsem api limit=auto max=20 queue=200 timeout=30s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

# each sample changes it
sub rule { return $redis->cmd('HGET', $t->state->auto_key('api'), '.') // '' }

sub sampled {
    my ($name) = @_;
    my $before = rule();
    is $node->get('/')->status, 200, 'a request';
    eventually { rule() ne $before } $name;
}

sampled('a sample');
$t->state->set_rule('api', sessions => 3000);
sampled('a second one');

# 10 ms for each worker are half a minute
my $before = rule();
is $node->get('/')->status, 200, 'a request for the next one';
$clock->step(15);
$redis->beats(1, 'the worker goes on', 15);
is rule(), $before, 'none after 15 s';
$clock->step(20);
eventually { rule() ne $before } 'after 30 s';

$t->done;
