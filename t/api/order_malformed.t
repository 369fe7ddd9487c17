#!/usr/bin/perl

# An order that was written by hand and has another form is ignored. Each node
# logs it once, not with every request, and again when it is changed. Its text
# cannot forge a line.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
$t->redis;
my $up = $t->upstream;

my @fleet = $t->fleet(2, <<'EOF_CONF');
worker_processes 2;
dsem_reuse off;
location /reports {
    dsem reports limit=2 queue=10;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

# of each node, the lines about orders
sub lines { map { [ $_->grep_log(qr/dsem: order /) ] } @fleet }

$t->state->order('reports', '12');
for (1 .. 20) {
    is $_->get('/reports')->status, 200, 'request served' for @fleet;
}
eventually { !grep { @$_ != 1 } lines() } 'logged by each node';
for (lines()) {
    like $_->[0], qr/\[warn\].* order "12" of "reports" ignored/,
        'order and semaphore named';
}

# a hostile one, with the limit in force that is configured

$t->state->order('reports', qq{7 0\r\n2026/01/01 [alert] forged "\x{80}});
my @running = map { $fleet[0]->begin('/reports?hang=1') } 1 .. 3;
eventually { $t->state->waiting('reports') == 1 } 'configured limit in force';
eventually { @{ (lines())[0] } == 2 } 'logged again when changed';
like +(lines())[0][1],
    qr{order "7 0%0D%0A2026%2F01%2F01 %5Balert%5D forged %22%\w+" of "reports"},
    'text encoded';
is scalar($fleet[0]->grep_log(qr/^2026.01.01 /)), 0, 'no line forged';

# the right form is no news

$t->state->order('reports', '3 0');
eventually { $up->now == 3 } 'order obeyed';
$up->release_all;
is $_->wait->status, 200, 'request served' for @running;
is scalar(@{ (lines())[0] }), 2, 'nothing else logged';

$t->done;
