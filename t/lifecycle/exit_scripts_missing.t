#!/usr/bin/perl

# The last request of an exiting worker ends just after the scripts were
# flushed: the worker loads them once more before its bye, and neither a permit
# nor its session waits for the end of the lease.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $up = $t->upstream;

my $stays = $t->node('stays', conf());
my $leaves = $t->node('leaves', conf());

sub conf {
    return <<'EOF_CONF';
dsem_lease 30s;
location /one {
    dsem one limit=1 queue=10 timeout=20s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF
}

my $request = $leaves->begin('/one?hang=1');
eventually { $up->now == 1 } 'permit out';
my $waits = $stays->begin('/one?t=1');
eventually { $t->state->waiting('one') == 1 } 'request queued elsewhere';
$leaves->signal('QUIT');
eventually { $leaves->grep_log(qr/gracefully shutting down/) } 'worker exits';

# before the next heartbeat of the worker
for (1 .. 20) {
    $redis->cmd(qw(SCRIPT FLUSH));
    last if $_ == 10 && $up->release_all;
}
is $request->wait->status, 200, 'request served';
eventually { !$leaves->alive } 'worker gone';

eventually { !grep { /^leaves:/ } $t->state->sessions } 'session removed', 3;
eventually { $waits->done } 'permit handed over', 5;
is $waits->wait->status, 200, 'queued request served';

$t->done;
