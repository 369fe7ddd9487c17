#!/usr/bin/perl

# The counters of a node are those of all its workers: they equal what clients
# saw, under load with aborts and a reload. What is held now is true again when
# a worker has been killed, and a stopped worker delays no other.

use lib 't/lib';
use Cpanel::JSON::XS qw(decode_json);
use Dsem::Test;

my $REQUESTS = $ENV{DSEM_LONG} ? 20_000 : 1200;

my $t = Dsem::Test->new;
$t->redis;
my $up = $t->upstream(service => 0.004);

my $node = $t->node('n1', <<'EOF_CONF');
worker_processes 2;
dsem_log_level info;
location /dsem/ {
    dsem_api;
}
location /load {
    dsem load limit=4 queue=12 timeout=30s;
    proxy_pass http://%%UPSTREAM%%;
}
location /load/short {
    dsem load limit=4 queue=12 timeout=1ms;
    proxy_pass http://%%UPSTREAM%%;
}
location /held {
    dsem held limit=100;
    proxy_set_header X-Node $pid;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

sub of {
    my ($name) = @_;
    my $all = decode_json($node->get('/dsem/semaphores')->body);
    my ($found) = grep { $_->{name} eq $name } @{ $all->{semaphores} };
    return $found ? $found->{local} : {};
}

sub sum { my $n = 0; $n += $_ for @_; return $n }

# load, a reload in the middle of it

my %WORD = (PASSED => 'passed', QUEUED => 'queued', REJECTED => 'rejected',
    TIMEOUT => 'timeout', ABORTED => 'aborted');

my $load = $t->load_start(clients => 24, requests => $REQUESTS,
    urls => [map { $node->url($_) } ('/load') x 4, '/load/short'],
    abort => sub { rand() < 0.2 ? rand 0.012 : undef });
my $first;
wait_for {
    $first = of('load');
    sum(map { $first->{$_} // 0 } values %WORD) > $REQUESTS / 10;
} 15, 'load';
$node->reload;
$load->wait;
# some that need not wait
is $node->get('/load')->status, 200, 'served' for 1 .. 3;

sub logged {
    my %n = map { $_ => 0 } values %WORD;
    $n{ $WORD{ $_->{dsem_status} } }++
        for grep { $_->{request_uri} =~ m{^/load} } $node->access_log;
    return \%n;
}

sub counted {
    my $local = $_[0] // of('load');
    return { map { $_ => $local->{$_} } values %WORD };
}

# both at one time: nginx may not have noticed yet that a client has left
my ($after, $logged);
eventually {
    ($after, $logged) = (of('load'), logged());
    my $counted = counted($after);
    $after->{in_use} + $after->{waiting} == 0
        && !grep { $counted->{$_} != $logged->{$_} } keys %$logged;
} 'all requests are counted, as clients saw';
cmp_ok $logged->{$_}, '>', 0, "some $_" for sort keys %$logged;
cmp_ok sum(values %$logged), '>', $REQUESTS / 2, 'load counted';
note join ' ', map { "$_ $logged->{$_}" } sort keys %$logged;

is $after->{wait}{count}, $logged->{queued} + $logged->{timeout},
    'waits of all that waited';
cmp_ok $after->{hold}{count}, '>=', $logged->{passed} + $logged->{queued},
    'times of all that held permits';
# 4 and more in ms
cmp_ok $after->{hold}{sum} / $after->{hold}{count}, '<', 3,
    'mean of these in seconds';
is $after->{waiting}, 0, 'nothing waits';
is $after->{most_in_use}, 4, 'highest use is the limit';
cmp_ok $after->{most_waiting}, '>', 1, 'longest queue';
my $history = $after->{history};
is sum(map { $_->[0] } @$history), $logged->{passed} + $logged->{queued},
    'history has all that passed';
is sum(map { $_->[1] } @$history), $logged->{rejected} + $logged->{timeout},
    'history has all that were refused';

# permits held in both workers; one is stopped

my %of;
wait_for {
    push @{ $of{begun} }, $node->begin('/held?hang=1') for 1 .. 4;
    wait_for { $up->now == @{ $of{begun} } } 15, 'requests at the upstream';
    my %pid = map { $_->{node} => 1 } grep { $_->{node} } $up->log;
    $of{pids} = [sort keys %pid];
    @{ $of{pids} } == 2 || @{ $of{begun} } > 90;
} 15, 'requests in both workers';
my $held = @{ $of{begun} };
eventually { of('held')->{in_use} == $held } 'held in both workers';

my ($dies, $lives) = @{ $of{pids} };
$node->freeze($dies);
my @requests = map { $node->begin('/held?t=1') } 1 .. 20;
eventually { !grep { !$_->done } @requests } 'stopped: requests answered';
eventually { of('held')->{passed} == $held + 20 } 'stopped: all counted';
eventually { of('held')->{in_use} == $held } 'stopped: its permits are in use';

# and killed

my $lost = grep { ($_->{node} // '') eq $dies } $up->log;
$node->kill_worker($dies);
wait_for { $up->now < $held } 15, 'connections closed';
my $left = $held - $lost;
eventually { of('held')->{in_use} == $left } 'killed: permits of the other';
cmp_ok $left, '<', $held, 'killed: fewer than before';
cmp_ok of('held')->{passed}, '>=', $held + 20, 'killed: counts stay';
is_deeply counted(), logged(), 'killed: counts of other name stay';

$up->release_all;
eventually { of('held')->{in_use} == 0 } 'nothing held at the end';

$t->done;
