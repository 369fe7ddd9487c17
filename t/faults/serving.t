#!/usr/bin/perl

# Requests are limited, wait, are refused, and the API is used, while
# allocations, calls of the system and of nginx fail, each path through the
# module once. No worker dies, the limit holds, no permit is lost, and when no
# call fails any more all requests are served.

use lib 't/lib';
use Dsem::Faults;
use Dsem::Test;

plan skip_all => Dsem::Faults::unusable() if Dsem::Faults::unusable();

my $ROUNDS = 16;

my $t = Dsem::Test->new(lease => 1);
my $faults = Dsem::Faults->new($t);
my $redis = $t->redis;
$t->expect_log(qr/dsem: getrandom\(\) failed/);
my $up = $t->upstream;

my $node = $faults->node('a', <<'EOF_CONF');
worker_processes 2;
dsem_lease 1s;
dsem_redis_timeout 800ms;
dsem_reuse 100ms;
location /queued {
    dsem_on_error reject;
    dsem api limit=2 queue=100 timeout=2s;
    proxy_set_header X-Sem api;
    proxy_pass http://%%UPSTREAM%%;
}
location /several {
    dsem_on_error reject;
    dsem "tenant:$arg_n" limit=$arg_l queue=10 timeout=2s
        weight=$arg_w priority=$arg_p;
    dsem api limit=2 queue=100 timeout=2s;
    proxy_set_header X-Sem api;
    proxy_pass http://%%UPSTREAM%%;
}
location /fair {
    dsem_on_error reject;
    dsem shared limit=2 queue=6 timeout=2s fair=$arg_k;
    proxy_set_header X-Sem shared;
    proxy_pass http://%%UPSTREAM%%;
}
location /refused {
    dsem_on_error reject;
    dsem_retry_after auto;
    dsem api limit=2;
    proxy_set_header X-Sem api;
    proxy_pass http://%%UPSTREAM%%;
}
location /redirected {
    error_page 503 = /mirror;
    dsem_on_error reject;
    dsem other limit=1;
    proxy_pass http://%%UPSTREAM%%;
}
location /mirrored {
    mirror /mirror;
    dsem_release log;
    dsem logged limit=1 queue=10;
    proxy_pass http://%%UPSTREAM%%;
}
location /mirror {
    internal;
    proxy_pass http://%%UPSTREAM%%;
}
location /local {
    dsem_on_error local;
    dsem "local" limit=4 queue=10;
    proxy_pass http://%%UPSTREAM%%;
}
location /idle {
    dsem_on_error reject;
    dsem_reuse 1s;
    dsem idle limit=100 queue=10;
    proxy_set_header X-Sem idle;
    proxy_pass http://%%UPSTREAM%%;
}
location /found {
    dsem_on_error reject;
    dsem found limit=auto min=1 max=2 queue=10 timeout=2s;
    proxy_set_header X-Sem found;
    proxy_pass http://%%UPSTREAM%%;
}
location /dry {
    dsem_dry_run on;
    dsem dry limit=1 queue=1;
    proxy_pass http://%%UPSTREAM%%;
}
location /dsem/ { dsem_api write=on; }
EOF_CONF

# One request of each kind at least, answered or not; more in each of the first
# rounds, so that nothing is left of what earlier ones allocated.
sub round {
    my ($i) = @_;
    my @json = ('Content-Type' => 'application/json');
    my @requests = map { $node->begin($_) } map { (
        '/queued?t=2', '/refused?t=2', "/several?n=$i&l=2&w=1&p=1&t=1",
        "/fair?k=$i&t=2", '/fair?k=all&t=2', '/fair?t=2',
        '/dsem/semaphores/shared', '/redirected', '/mirrored', '/local', '/dry', '/idle?t=2',
        '/found?t=2', '/dsem/semaphores/found',
        '/dsem/', '/dsem/semaphores', '/dsem/semaphores/api', '/dsem/metrics',
        '/dsem/health', '/dsem/nothing') } 1 .. ($i < 5 ? $i : 5);
    push @requests,
        $node->begin('/queued', -method => 'POST', -body => 'x' x 20_000),
        (map {
            $node->begin('/dsem/semaphores/api', -method => 'PATCH', @json,
                -body => $_)
        } '{"limit": 1}', '{"limit": null, "paused": false}'),
        $node->begin('/dsem/sessions/a:0:0123456789abcdef',
            -method => 'DELETE'),
        $node->begin('/dsem/semaphores');
    $node->begin('/queued?t=2')->abort;

    # and now and then Redis is connected, asked for its scripts or told the
    # state again
    $redis->client_kill if $i % 3 == 0;
    $redis->cmd(qw(SCRIPT FLUSH)) if $i % 10 == 5;
    $redis->cmd('FLUSHALL') if $i % 10 == 0;

    $_->wait for @requests;
    return map { $_->status // 0 } @requests;
}

my @workers = $node->workers;
$faults->on(qw(memory system nginx));

my %answers;
my ($began, $i, $last, $quiet) = (now, 0, 0, 0);
while ($quiet < 20 && $i < $ROUNDS) {
    $answers{$_}++ for round(++$i);
    my $failed = $faults->failed;
    $quiet = $failed > $last ? 0 : $quiet + 1;
    $last = $failed;
}
$faults->off;
note sprintf '%d paths failed in %d rounds, %.1f s: %s', $last, $i,
    now - $began, join ', ', map { "$_: $answers{$_}" } sort keys %answers;

cmp_ok $last, '>', 100, 'paths failed';
is_deeply [ grep { !/^(?:0|200|40[04]|50[03])$/ } keys %answers ], [],
    'no other answer';
is_deeply [ $node->workers ], \@workers, 'same workers';
cmp_ok $up->peak($_), '<=', 2, 'limit not exceeded' for qw(api shared found);

eventually {
    $node->get('/dsem/health')->status == 200
} 'redis available';
eventually {
    my @all = map { $node->begin('/queued?t=1') } 1 .. 20;
    20 == grep { $_->wait->status == 200 } @all;
} 'all requests served';

$t->done;
