#!/usr/bin/perl

# Two of three sentinels are cut off from the others, and go on naming a master
# that is gone. Each of them has a second, then the next one has its turn, until
# the third one leads the worker to the new master. An address that leads to
# several sentinels is connected to anew.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
my $set = $t->sentinel(servers => 1, sentinels => 0);
my $up = $t->upstream;
my $gone = '127.0.0.1:' . $t->free_port;
my @guide = map { $set->watch('mymaster', $_) }
    $gone, $gone, $set->master->address;

my $conf = <<'EOF_CONF';
worker_processes 1;
dsem_redis %%SENTINELS%% mode=sentinel master=mymaster;
add_header X-Status $dsem_status;
location / {
    dsem api limit=2 queue=10;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

sub status_of { return $_[0]->get('/?t=1')->header('X-Status') }

my $state = Dsem::State->new($set->master);
my $node = $t->node('a', $conf,
    SENTINELS => join ' ', map { $_->address } @guide);
eventually { $state->session_count == 1 }
    'session at the master that the third one names';
# the worker may not have read the reply yet
eventually { status_of($node) eq 'PASSED' } 'permit granted';

my $way = $t->proxy($guide[0]->address);
my $alone = $t->node('alone', $conf, SENTINELS => $way->address);
wait_for { $way->bytes->{s2c} } 15, 'a reply of the first one';
$way->retarget($guide[2]->address);
eventually { $state->session_count == 2 } 'asked anew behind its address';
eventually { status_of($alone) eq 'PASSED' } 'permit granted';

$t->done;
