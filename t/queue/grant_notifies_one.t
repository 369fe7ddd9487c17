#!/usr/bin/perl

# Many requests wait on two nodes while permits are released one by one. Each
# release grants one ticket and notifies only the worker of that ticket.
# Notified workers send no command for the grant.

use lib 't/lib';
use Dsem::Test;

my $WAITING = $ENV{DSEM_LONG} ? 500 : 200;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $up = $t->upstream;

my ($holds, @fleet) = $t->fleet(3, <<'EOF_CONF');
worker_processes 1;
worker_connections 2048;
location /woken {
    dsem api limit=1 queue=1000 timeout=60s;
    proxy_set_header X-Node %%NODE%%;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

sub waiting { return $t->state->waiting('api') }

my $holder = $holds->begin('/woken?hang=1');
eventually { $up->now == 1 } 'permit out';
my @requests;
for my $n (1 .. $WAITING) {
    push @requests, $fleet[ $n % 2 ]->begin('/woken?t=1');
}
eventually { waiting() == $WAITING } 'all requests queued', 10;

my $monitor = $t->client->raw('127.0.0.1', $redis->port);
$monitor->send("MONITOR\r\n")->read_until(qr/OK/);
my $listens = $t->connect;
$listens->cmd('PSUBSCRIBE', $t->state->channel('*'));

my $begun = now;
$up->release_all;
is scalar(grep { $_->wait(30)->status != 200 } $holder, @requests), 0,
    'all served';
is $up->peak, 1, 'one at a time';

$redis->cmd('PUBLISH', $t->state->channel('end'), 'the end');
my @messages;
while (1) {
    my (undef, $channel, $text) = @{ $listens->reply };
    last if $text eq 'the end';
    push @messages, [ $channel, split ' ', $1 ]
        if $text =~ /^[0-9a-f]{16} (grant .*)/;
}
my $seen = $monitor->read_until(qr/the end/);
my $key = $t->state->semaphore_key('api');
my $syncs = () = $seen =~ /"EVALSHA"[^\n]*"\Q$key\E"/g;

# a worker that releases a permit learns of the grant by the reply

my %told;
$told{"$_->[0] $_->[6]"}++ for @messages;
cmp_ok scalar(@messages), '<=', $WAITING, 'one message per permit';
cmp_ok scalar(@messages), '>', 0, 'permits change nodes';
is scalar(grep { @$_ != 7 } @messages), 0, 'one ticket per message';
is scalar(grep { $_ > 1 } values %told), 0, 'each ticket notified once';
is scalar(grep { $_->[0] =~ /:c:n1:/ } @messages), 0,
    'no message for other workers';
# one for each released permit, and one check a second for waiting requests of
# each worker
cmp_ok $syncs, '<', 1.3 * $WAITING + 50 + 4 * (now - $begun),
    'one command per permit';
note sprintf '%d waited, %d messages, %d commands', $WAITING,
    scalar(@messages), $syncs;

$t->done;
