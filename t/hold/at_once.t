#!/usr/bin/perl

# "Prefer: wait=0" is answered at once: no permit of a semaphore that programs
# hold stays idle in a worker, so none has to be recalled first. Neither those
# of a name from a variable do, nor those of the same name elsewhere.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new(lease => 60);
$t->redis;
$t->upstream;

my ($a, $b) = $t->fleet(2, <<'EOF_CONF');
dsem_lease 60s;
dsem_reuse 60s;
location /jobs {
    dsem jobs limit=1 queue=10 timeout=60s;
    dsem_hold;
}
location /named/ {
    dsem "$uri" limit=1 queue=10 timeout=60s;
    dsem_hold;
}
location /shared {
    dsem shared limit=4 queue=10;
    dsem_hold;
}
location /page {
    dsem shared limit=4 queue=10;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

for my $case ([ '/jobs', 'jobs' ], [ '/named/x', '%2Fnamed%2Fx' ]) {
    my ($path, $name) = @$case;

    my $holder = $a->hold($path);
    $a->freeze;
    my $refused = $b->get($path, Prefer => 'wait=0');
    is $refused->status, 503, "$path: refused beside a worker that is stopped";
    is $b->logged($refused)->{dsem_status}, 'REJECTED', "$path: never queued";
    $a->thaw;

    $holder->close;
    eventually { !$t->state->held($name) } "$path: released";
    $b->hold($path, Prefer => 'wait=0')->close;
    pass "$path: granted to the other node";
    eventually { !$t->state->held($name) } "$path: released again";
}

is $a->get('/page')->status, 200, 'a page that shares a name' for 1 .. 3;
eventually { !$t->state->held('shared') } 'not kept either';

$t->done;
