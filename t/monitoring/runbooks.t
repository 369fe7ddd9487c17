#!/usr/bin/perl

# The commands of docs/operations.md, run as they stand there, at the server that
# docs/fleet.md sets up: a limit is cut for the whole fleet, requests are paused,
# both end; a session is removed; the binary is replaced. No page has a command
# for another server.

###############################################################################

use lib 't/lib';
use Cpanel::JSON::XS qw(decode_json);

use Dsem::Pages;
use Dsem::Test;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $up = $t->upstream;

# the server with the API, and its address

my ($api) = section('The second node') =~ /^( {4}server \{\n.*?^ {4}\}\n)/ms;
my ($address) = $api =~ /listen ([\d.:]+);/;
my %page = pages();
my @urls = map { m{\bhttp://(127[\d.:]+)/dsem/}g } values %page,
    page('monitoring/README.md');
cmp_ok(scalar @urls, '>=', 9, 'addresses found');
is_deeply([grep { $_ ne $address } @urls], [], 'one address on all pages');

# Redis and the sentinels of these pages have passwords

my @cli = map { /`(redis-cli [^`]+)`/g } @page{qw(docs/operations.md
    docs/fleet.md)};
cmp_ok(scalar @cli, '>=', 2, 'commands for Redis found');
is_deeply([grep { !/ --askpass / } @cli], [], 'with a password');

my ($n1, $n2) = $t->fleet(2, <<'EOF_CONF' . $api =~ s/:\d+;/:%%PORT2%%;/r);
worker_processes 1;
server {
    listen 127.0.0.1:%%PORT%%;
    location /reports {
        dsem reports limit=8 queue=8 timeout=20s;
        proxy_pass http://%%UPSTREAM%%;
    }
}
EOF_CONF

# limits; the commands go to the first node, the requests to the second

my ($cut, $paused, $back) = commands('Cut a limit at once');

my @requests = map { $n2->begin('/reports?hang=1') } 1 .. 8;
wait_for { $up->now == 8 } 10, 'eight at the backend';
is(run($cut)->{limit}, 5, 'limit cut');
push @requests, $n2->begin('/reports?hang=1');
wait_for { waiting() == 1 } 10, 'one waits';
$up->release(3);
wait_for { $up->now == 5 } 10, 'five at the backend';
is(waiting(), 1, 'it waits beside five');
$up->release(1);
wait_for { !waiting() } 10, 'it waits no longer';
eventually { $up->now == 5 } 'five at the backend';

run($paused);
# figures are up to a second old
eventually { (semaphore()->{order} // {})->{paused} } 'paused';
$up->release_all;
wait_for { !$up->now } 10, 'all answered';
push @requests, $n2->begin('/reports');
wait_for { waiting() == 1 } 10, 'one waits';
is($up->now, 0, 'none at the backend');

is(run($back)->{limit}, 8, 'as configured');
is($_->wait->status, 200, 'answered') for @requests;
eventually { !semaphore()->{order} } 'no order is left';

# a session; the one that is shown is unknown

my ($remove) = commands('A lost node');
like(run($remove)->{error}, qr/\w/, 'unknown session');
my ($name) = $remove =~ m{/sessions/(\S+)};
my ($session) = grep { /^n2:/ } $t->state->sessions;
like(run($remove =~ s/\Q$name\E/$session/r)->{error}, qr/heard/,
    'a session that is heard from stays');

# the binary

my ($begin, @end) = commands('Upgrade');
is(scalar @end, 2, 'three commands');
my $old = $n1->pid;
$n1->upgrade(sub { run_here($begin) }, sub { run_here($_) for @end });
isnt($n1->pid, $old, 'a new master');
is($n1->get('/reports')->status, 200, 'the new one serves');

done_testing();

###############################################################################

# Those of one section, each with its continued lines.
sub commands {
    my ($title) = @_;
    return section($title) =~ /^(?: {4})?((?:curl|kill) (?:.*\\\n)*.*)$/mg;
}

sub run {
    my ($command) = @_;
    my $port = $n1->port(2);
    $command =~ s{\bhttp://\Q$address\E/}{http://127.0.0.1:$port/}
        or die $command;
    $command =~ s{^curl}{curl -s};
    return decode_json(scalar qx($command));
}

sub run_here {
    my ($command) = @_;
    my $pid = $n1->dir . '/nginx.pid';
    system($command =~ s{/run/nginx\.pid}{$pid}r) == 0 or die $command;
}

sub semaphore {
    return run("curl http://$address/dsem/semaphores/reports")->{semaphore};
}

sub waiting { return $t->state->waiting('reports') // 0 }
