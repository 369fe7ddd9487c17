#!/usr/bin/perl

# Each request has one result in the counters, for each semaphore that it
# asked: by the limit, by errors, in a dry run, over redirects, without Redis.

use lib 't/lib';
use Cpanel::JSON::XS qw(decode_json);
use Dsem::Test;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $up = $t->upstream;

my $node = $t->node('n1', <<'EOF_CONF');
dsem_reuse off;
# a lost Redis is awaited for so long
dsem_redis_connect_timeout 1s;
server {
    listen 127.0.0.1:%%PORT%%;
    root %%DIR%%;
    location /dsem/ {
        dsem_api;
    }
    location /one {
        dsem one limit=1 queue=1 timeout=30s;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /heavy {
        dsem heavy limit=1 weight=$arg_weight;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /timeout {
        dsem one limit=1 queue=10 timeout=50ms;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /invalid {
        dsem invalid limit=$arg_limit;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /two {
        dsem first limit=5;
        dsem second limit=0;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /redirected {
        dsem kept limit=2;
        dsem anew limit=2;
        try_files /nowhere @there;
    }
    location @there {
        dsem kept limit=2;
        dsem there limit=2;
        dsem anew limit=2;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /uploaded {
        dsem upload limit=2;
        try_files /nowhere @upload;
    }
    location @upload {
        dsem upload limit=2;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /dry_first {
        dsem dry_one limit=1;
        dsem_dry_run on;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /dry_one {
        dsem dry_one limit=1 queue=10 timeout=50ms;
        dsem_dry_run on;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /dry_patient {
        dsem dry_patient limit=1 queue=10 timeout=30s;
        dsem_dry_run on;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /dry_rejected {
        dsem dry_rejected limit=0;
        dsem_dry_run on;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /dry_invalid {
        dsem dry_invalid limit=$arg_limit;
        dsem_dry_run on;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /pass {
        dsem pass limit=2;
        dsem_on_error pass;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /local {
        dsem local limit=1;
        dsem_on_error local;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /reject {
        dsem reject limit=2;
        dsem_on_error reject;
        proxy_pass http://%%UPSTREAM%%;
    }
}
EOF_CONF

sub figures {
    my $all = decode_json($node->get('/dsem/semaphores')->body);
    return { map { $_->{name} => $_->{local} } @{ $all->{semaphores} } },
        $all->{other};
}

sub of { return (figures())[0]->{ $_[0] } // {} }

my @RESULTS = qw(passed queued rejected timeout error degraded aborted
    rejected_dry_run timeout_dry_run error_dry_run reclaimed overage);

# those that are not 0, as text
sub results {
    my ($local) = @_;
    return join ' ', map { "$_ $local->{$_}" } grep { $local->{$_} } @RESULTS;
}

sub state { return $t->state->counts($_[0]) }

is $node->get('/reject')->status, 200, 'redis available';

# one is served, one waits, one is rejected

my $served = $node->begin('/one?hang=1');
eventually { $up->now == 1 } 'one request served';
my $queued = $node->begin('/one?hang=1');
eventually { state('one') eq '1 1' } 'one request queued';
is $node->get('/one')->status, 503, 'one request rejected';
is $node->get('/heavy?weight=2')->status, 503, 'heavy request rejected';

my $now = of('one');
is "@$now{qw(in_use idle waiting)}", '1 0 1', 'held and waiting now';
is results($now), 'passed 1 rejected 1', 'waiting request has no result';

$up->release;
is $served->wait->status, 200, 'first request served';
eventually { $up->now == 1 } 'queued request served';
is results(of('one')), 'passed 1 queued 1 rejected 1', 'one queued';

my $late = $node->get('/timeout?hang=1');
is $late->status, 503, 'next request refused';
is $node->logged($late)->{dsem_status}, 'TIMEOUT', 'its time is over';
my $aborted = $node->begin('/one');
eventually { state('one') eq '1 1' } 'next request queued';
$aborted->close;
eventually { of('one')->{aborted} } 'its client has left';
$up->release_all;
is $queued->wait->status, 200, 'queued request served';
eventually { of('one')->{in_use} == 0 } 'nothing held';

# two semaphores: the one that granted has passed the request

is $node->get('/two')->status, 503, 'second semaphore refuses';
is $node->get('/invalid?limit=x')->status, 503, 'value is not a number';
is $node->get('/redirected')->status, 200, 'redirected';

# a permit that is given up while a body is coming is asked for anew

my $upload = $node->raw;
$upload->send("POST /uploaded HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n"
    . "Connection: close\r\n\r\nab");
eventually { (of('upload')->{passed} // 0) == 1 && state('upload') eq '0 0' }
    'body awaited without a permit';
$upload->send('cd');
eventually { of('upload')->{passed} == 2 } 'asked anew';
$upload->close;

# dry run: refusals are apart

my @dry = ($node->begin('/dry_first?hang=1'));
eventually { state('dry_one') eq '1 0' } 'first one passes';
push @dry, map { $node->begin('/dry_one?hang=1') } 1, 2;
eventually { (of('dry_one')->{timeout_dry_run} // 0) == 2 } 'two timeouts';
push @dry, $node->begin('/dry_rejected?hang=1');
eventually { of('dry_rejected')->{rejected_dry_run} } 'rejected, and passes';
is $node->get('/dry_invalid?limit=x')->status, 200, 'invalid, and passes';
push @dry, $node->begin('/dry_patient?hang=1');
eventually { state('dry_patient') eq '1 0' } 'one passes';
push @dry, my $ends = $node->begin('/dry_patient?hang=1');
eventually { state('dry_patient') eq '1 1' && $up->now == @dry }
    'one would wait';
$up->release_nonce($ends->nonce);
is $ends->wait->status, 200, 'ends while it would wait';
eventually { of('dry_patient')->{queued} } 'counted as queued';
$up->release_all;
is $_->wait->status, 200, 'served' for @dry;

# without Redis

my @held = map { $node->begin("/$_?hang=1") } qw(local);
eventually { $up->now == 1 } 'one permit held';
$redis->kill;
eventually { $node->get('/reject')->status == 503 } 'redis unavailable';
my $errors = of('reject')->{error};
is $node->get('/pass')->status, 200, 'passes without a permit';
is $node->get('/reject')->status, 503, 'refused';
$up->release_all;
$_->wait for @held;
$redis->start;

my ($all, $other) = figures();
my %expected = (
    one => 'passed 1 queued 1 rejected 1 timeout 1 aborted 1',
    heavy => 'rejected 1',
    invalid => 'error 1',
    first => 'passed 1',
    second => 'rejected 1',
    kept => 'passed 1',
    anew => 'passed 2',
    there => 'passed 1',
    upload => 'passed 2',
    dry_one => 'passed 1 timeout_dry_run 2',
    dry_patient => 'passed 1 queued 1',
    dry_rejected => 'rejected_dry_run 1',
    dry_invalid => 'error_dry_run 1',
    local => 'passed 1',
    pass => 'degraded 1',
    reject => 'passed 1 error ' . ($errors + 1),
);
is results($all->{$_} // {}), $expected{$_}, "results of $_"
    for sort keys %expected;
is results($other), '', 'no result of another name';
is join(' ', sort keys %$all), join(' ', sort keys %expected), 'no other name';

# times: of all that waited, and of all that held permits

for my $name (sort keys %expected) {
    my $local = $all->{$name};
    my $waited = $local->{queued} + $local->{timeout}
        + $local->{timeout_dry_run};
    my $wait = $local->{wait};
    is $wait->{count}, $waited, "waits of $name";
    my $buckets = 0;
    $buckets += $_ for @{ $wait->{buckets} };
    is $buckets, $waited, "buckets of $name";
}
is $all->{one}{hold}{count}, 2, 'permits held twice';
cmp_ok $all->{one}{wait}{sum}, '>=', 0.05, 'sum of waits';
is $all->{one}{most_in_use}, 1, 'highest use';
is $all->{one}{most_waiting}, 1, 'longest queue';
is join(' ', map { $_->{in_use} + $_->{idle} + $_->{waiting} }
    map { $all->{$_} } sort keys %$all), join(' ', (0) x keys %$all),
    'nothing held, nothing waits';
is "@{ $all->{one}{last_hour} }{qw(passed rejected timeout error)}",
    '2 1 1 0', 'last hour';
is join(' ', map { $all->{$_}{last_hour}{passed} } qw(dry_one dry_patient
    dry_rejected dry_invalid pass)), '3 2 1 1 1',
    'last hour: dry runs and no Redis passed requests';

$t->done;
