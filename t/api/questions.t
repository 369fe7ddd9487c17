#!/usr/bin/perl

# The five questions of an operator, each answered by one GET: how many permits
# are in use, and by which node; which requests wait; what was refused in the
# last hour; is Redis healthy; what is the limit now. The same for Prometheus.
# With Redis down GET answers at once, and nothing can be changed.

###############################################################################

use lib 't/lib';
use Cpanel::JSON::XS ();
use IPC::Open3 qw(open3);
use List::Util qw(sum);

use Dsem::Test;

###############################################################################

my $json = Cpanel::JSON::XS->new->utf8;
my $t = Dsem::Test->new;
my $redis = $t->redis;
my $up = $t->upstream;

my ($node, $other) = $t->fleet(2, <<'EOF_CONF');
worker_processes 2;
# a lost Redis is awaited for so long
dsem_redis_connect_timeout 1s;
# while idle permits are recalled the queue may be longer
dsem_reuse off;
dsem a limit=4 queue=1 timeout=60s;
server {
    listen 127.0.0.1:%%PORT%%;
    location / {
        dsem a limit=4 queue=1 timeout=60s;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /dry/ {
        dsem a limit=4 queue=1 timeout=60s;
        dsem_dry_run on;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /dsem/ {
        dsem_api write=on;
        location /dsem/below/ {
            proxy_pass http://%%UPSTREAM%%;
        }
    }
}
EOF_CONF

wait_for { $t->state->session_count == 4 } 15, 'all workers';
my @requests = map { $node->begin('/?hang=1') } 1 .. 3;
wait_for { $up->now == 3 } 15, 'three of the first node';
push @requests, map { $other->begin('/?hang=1') } 1 .. 2;
wait_for { $up->now == 4 && $t->state->waiting('a') == 1 } 15,
    'one of the second, one waits';
is($node->get('/')->status, 503, 'refused') for 1 .. 3;
my $dry = $node->begin('/dry/?hang=1');
wait_for { $up->now == 5
    && get('semaphores/a')->{semaphore}{local}{rejected_dry_run} } 15,
    'a dry run';
$up->release_nonce($dry->nonce);
is($dry->wait->status, 200, 'dry run');
is($node->logged($dry)->{dsem_status}, 'REJECTED_DRY_RUN', 'its decision');
is($node->get('/dsem/below/')->status, 503,
    'a location below the API has its limit');

# a full semaphore can be looked at, also where it would limit the API

my $all = wait_for {
    my $all = get('semaphores');
    my ($a) = @{ $all->{semaphores} };
    $a && ($a->{waiting} // 0) == 1 && $all;
} 15, 'figures';
is($all->{node}, 'n1', 'the node that answers');
is(scalar $node->grep_log(qr/dsem: version \Q$all->{version}\E$/), 1,
    'its version, logged at the start');
cmp_ok(abs($all->{time} - time), '<', 60, 'its time');
my ($row) = @{ $all->{semaphores} };
is($row->{name}, 'a', 'name');
is("$row->{in_use} of $row->{limit}", '4 of 4', 'permits in use, limit');
is_deeply({ map { $_->{node} => "$_->{in_use} $_->{waiting}" }
    @{ $row->{nodes} } }, { n1 => '3 0', n2 => '1 1' }, 'by which nodes');
is($row->{waiting}, 1, 'waiting');
is_deeply($row->{local}{last_hour},
    { passed => 4, rejected => 4, timeout => 0, error => 0 },
    'refused in the last hour');
my @history = @{ $row->{local}{history} };
is_deeply([map { my $n = $_; sum(map { $_->[$n] } @history) } 0, 1], [4, 4],
    'of this node');
is("@{ $row->{local} }{qw(passed rejected rejected_dry_run)}", '3 4 1',
    'since the start');
is($all->{redis}{state}, 'available', 'Redis healthy');
is($all->{fleet}{sessions}, 4, 'worker processes');
is(@{ $all->{buckets} } + 1, @{ $row->{local}{wait}{buckets} }, 'buckets');

my $one = get('semaphores/a');
is_deeply([sort keys %$one], [sort map {
    $_ eq 'semaphores' ? 'semaphore' : $_ } grep { $_ ne 'other' } keys %$all],
    'the same of one');
delete $one->{semaphore}{sessions};
is_deeply([sort keys %{ $one->{semaphore} }], [sort keys %$row], 'fields');

# a semaphore without a limit in the configuration of these nodes

is(patch('later', '{"limit":3}')->status, 200, 'order');
# each worker has figures of its own
my $later = wait_for {
    my ($later) = grep { $_->{name} eq 'later' }
        @{ get('semaphores')->{semaphores} };
    $later;
} 15, 'shown';
is_deeply([@$later{qw(limit configured order in_use)}], [3, undef,
    { limit => 3, paused => Cpanel::JSON::XS::false }, 0], 'an order alone');
is($later->{local}{passed}, 0, 'nothing counted');

# Prometheus

my $metrics = wait_for {
    my $metrics = $node->get('/dsem/metrics');
    $metrics->body =~ /"later"/ && $metrics;
} 15, 'shown by this worker';
is($metrics->header('Content-Type'),
    'text/plain; version=0.0.4; charset=utf-8', 'text format');
is(promtool($metrics->body), '', 'promtool finds nothing');
my %sample = $metrics->body =~ /^([^#\s]\S*) (\S+)$/mg;
is($sample{$_->[0]}, $_->[1], $_->[0]) for
    ['dsem_info{version="' . $all->{version} . '",node="n1"}', 1],
    ['dsem_requests_total{semaphore="a",result="passed"}', 3],
    ['dsem_requests_total{semaphore="a",result="rejected"}', 4],
    ['dsem_requests_total{semaphore="a",result="rejected_dry_run"}', 1],
    ['dsem_requests_total{semaphore="~other",result="passed"}', 0],
    ['dsem_wait_seconds_bucket{semaphore="a",le="1.0"}', 0],
    ['dsem_hold_seconds_count{semaphore="a"}', 0],
    ['dsem_node_permits{semaphore="a",state="in_use"}', 3],
    ['dsem_fleet_permits{semaphore="a",state="in_use"}', 4],
    ['dsem_fleet_waiting_requests{semaphore="a"}', 1],
    ['dsem_limit_permits{semaphore="later"}', 3],
    ['dsem_configured_limit_permits{semaphore="later"}', undef],
    ['dsem_paused{semaphore="a"}', 0],
    ['dsem_fleet_sessions', 4], ['dsem_fleet_nodes', 2],
    ['dsem_redis_up', 1], ['dsem_redis_recovering', 0],
    ['dsem_redis_recoveries_total', 0];
my $open = wait_for {
    my $open = $node->get('/dsem/metrics', Accept =>
        'application/openmetrics-text;version=1.0.0;q=0.5,*/*;q=0.2');
    $open->body =~ /"later"/ && $open;
} 15, 'shown as OpenMetrics';
is($open->header('Content-Type'),
    'application/openmetrics-text; version=1.0.0; charset=utf-8',
    'OpenMetrics');
like($open->body, qr/^# TYPE dsem_requests counter$/m, 'its counters');
like($open->body, qr/\n# EOF\n\z/, 'its end');
is_deeply([samples($open->body)], [samples($metrics->body)],
    'the same samples');

$up->release_all;
wait_for { $up->now == 1 } 15, 'the last one';
$up->release_all;
is($_->wait->status, 200, 'answered') for @requests;
# counted by another worker than that which is asked, maybe
eventually { get('semaphores/a')->{semaphore}{local}{hold}{count} == 3 }
    'permits were held';

# a worker that was asked often may repeat an answer of before
my @held;
wait_for {
    @held = $node->get('/dsem/metrics')->body =~
        /^dsem_hold_seconds_bucket\{semaphore="a",le="[^"]*"\} (\d+)$/mg;
    $held[-1];
} 15, 'buckets';
is_deeply([@held[0, -1]], [0, 3], 'buckets: first, last');
is_deeply(\@held, [sort { $a <=> $b } @held], 'buckets are cumulative');

# names in addresses: what looks encoded, or shortened, but is not

my $long = 'a' x 64;
for (['a%25zz', 'a%25zz'], ['a%2541', 'aA'],
    ["$long~" . 'g' x 40, "$long%7E" . 'g' x 40],
    ['+' . 'a' x 63 . '~' . 'f' x 40, '%2B' . 'a' x 63 . '%7E' . 'f' x 40])
{
    my ($address, $name) = @$_;
    my $set = $json->decode(patch($address, '{"limit":1}')->body);
    is($set->{name}, $name, "name of $address");
    is(patch($address, '{"limit":null}')->status, 200, 'no order');
}

# Redis down

is(patch('later', '{"limit":null}')->status, 200, 'no order');
$redis->stop;
wait_for { $node->grep_log(qr/unavailable \(/) == 2 } 15, 'both workers';
my $health = wait_for {
    my $health = $node->get('/dsem/health');
    $health->body =~ /unavailable/ && $health;
} 15, 'unavailable';
is($health->status, 503, 'not healthy');
like($json->decode($health->body)->{reason}, qr/\w/, 'reason');
for my $path (qw(semaphores semaphores/a metrics health), '') {
    my $r = $node->get("/dsem/$path");
    is($r->status, $path eq 'health' ? 503 : 200, "answered: $path");
    # below the timeouts of Redis
    cmp_ok($r->took, '<', 1, "at once: $path");
}
is(get('semaphores')->{redis}{state}, 'unavailable', 'state');
# a worker that has read no figures before knows none now
eventually { (get('semaphores')->{fleet}{age} // 0) > 0.1 } 'age';
like($node->get('/dsem/metrics')->body, qr/^dsem_redis_up 0$/m, 'metric');
my $refused = patch('a', '{"limit":3}');
is($refused->status, 503, 'nothing can be changed');
like($json->decode($refused->body)->{error}, qr/nothing has been changed/,
    'why');
$refused->close;

done_testing();

###############################################################################

sub get {
    my ($path) = @_;
    return $json->decode($node->get("/dsem/$path")->body);
}

sub patch {
    my ($name, $body) = @_;
    return $node->get("/dsem/semaphores/$name", -method => 'PATCH',
        -body => $body, 'Content-Type' => 'application/json');
}

# Without times.
# without times that go on
sub samples {
    return grep { !/^#|_seconds |^dsem_oldest_hold_seconds/ } split /\n/, $_[0];
}

sub promtool {
    my ($text) = @_;
    my $pid = open3(my $in, my $out, undef, qw(promtool check metrics));
    print $in $text;
    close $in;
    local $/;
    my $said = <$out>;
    waitpid $pid, 0;
    return $said . ($? ? "exit status $?" : '');
}
