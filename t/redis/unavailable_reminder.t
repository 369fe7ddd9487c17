#!/usr/bin/perl

# While Redis is unavailable the log repeats it every minute, as an error, with
# the cause and the number of requests that were passed and refused without
# Redis since the last line: each once, however many limits it has. The monotonic
# clock of the host is moved.

use lib 't/lib';
use Dsem::Clock;
use Dsem::Test;

my $t = Dsem::Test->new(lease => 2);
my $redis = $t->redis;
my $up = $t->upstream;
my $proxy = $t->proxy($redis->address);
my $clock = Dsem::Clock->new($t, monotonic => 1);

my $node = do {
    local $ENV{LD_PRELOAD} = $clock->{library};
    local $ENV{DSEM_CLOCK} = $clock->{file};
    local $ENV{ASAN_OPTIONS} = "$ENV{ASAN_OPTIONS}:verify_asan_link_order=0"
        if $ENV{ASAN_OPTIONS};
    $t->node('a', <<'EOF_CONF', REDIS => $proxy->address);
worker_processes 1;
dsem_redis_connect_timeout 500ms;
dsem_lease 2s;
location /pass {
    dsem pass limit=1;
    dsem_on_error pass;
    proxy_pass http://%%UPSTREAM%%;
}
location /reject {
    dsem reject limit=1;
    dsem_on_error reject;
    proxy_pass http://%%UPSTREAM%%;
}
location /local {
    dsem local limit=1;
    proxy_pass http://%%UPSTREAM%%;
}
location /two {
    dsem x limit=1;
    dsem y limit=1;
    dsem_on_error pass;
    proxy_pass http://%%UPSTREAM%%;
}
location /both {
    dsem free limit=1;
    dsem local limit=1;
    proxy_pass http://%%UPSTREAM%%;
}
location /again {
    dsem again limit=1;
    try_files /nowhere @again;
}
location @again {
    dsem again limit=1;
    proxy_pass http://%%UPSTREAM%%;
}
location /wait {
    dsem wait limit=1 queue=5 timeout=50ms;
    proxy_pass http://%%UPSTREAM%%;
}
location /invalid {
    dsem invalid limit=$arg_limit;
    proxy_pass http://%%UPSTREAM%%;
}
location /dry {
    dsem dry limit=1;
    dsem_on_error reject;
    dsem_dry_run on;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF
};

sub reminders {
    return map { /still unavailable after (\d+) ms \((.*?)\), (.*)$/
        ? { ms => $1, cause => $2, rest => $3, line => $_ } : () }
        split /\n/, $node->error_log;
}

eventually { $t->state->session_count == 1 } 'connected';
is $node->get('/pass?t=1')->status, 200, 'request served';
$proxy->refuse;
$proxy->cut;
eventually { $node->grep_log(qr/\[error\].*unavailable \(/) == 1 }
    'unavailable';

# after the lease, when a worker may use its share
$clock->step(61);
eventually { reminders() == 1 } 'first reminder';
my ($first) = reminders();
like $first->{line}, qr/\[error\]/, 'reminder is an error';
cmp_ok $first->{ms}, '>', 60_000, 'reminder: time since the loss';
like $first->{cause}, qr/^connect failed: Connection refused$/,
    'reminder: cause';

is $node->get('/pass?t=1')->status, 200, 'pass: passed' for 1 .. 3;
is $node->get('/reject?t=1')->status, 503, 'reject: refused' for 1 .. 4;
is $node->get('/dry?t=1')->status, 200, 'dry run: passed';
my $held = $node->begin('/local?hang=1');
wait_for { $up->now == 1 } 15, 'local: one passed';
is $node->get('/local?t=1')->status, 503, 'local: one refused';
is $node->get('/both?t=1')->status, 503, 'the second of two limits: refused';
is $node->get('/two?t=1')->status, 200, 'two limits: passed';
is $node->get('/again?t=1')->status, 200, 'redirected: passed';
my $waited = $node->begin('/wait?hang=1');
wait_for { $up->now == 2 } 15, 'a queue: one passed';
is $node->get('/wait?t=1')->status, 503, 'a queue: one has waited in vain';
is $node->get('/invalid?limit=x')->status, 503, 'no limit: a matter of its own';
$_->close for $held, $waited;

$clock->step(61);
eventually { reminders() == 2 } 'second reminder';
is((reminders())[1]{rest},
    '"dsem_on_error" passed 8 requests and refused 7 since the last line',
    'reminder: requests counted');
$clock->step(61);
eventually { reminders() == 3 } 'third reminder';
like((reminders())[2]{rest}, qr/passed 0 requests and refused 0 /,
    'reminder: counted since the last line');
is scalar($node->grep_log(qr/\[error\].*dsem: redis/)), 4,
    'no other error';

$proxy->refuse(0);
eventually { $node->grep_log(qr/\[notice\].*dsem: .*available again/) == 1 }
    'available again';
is $node->get('/reject?t=1')->status, 200, 'request served again';
$clock->step(61);
eventually { $node->get('/reject?t=1')->status == 200 } 'and a minute later';
is scalar(reminders()), 3, 'no reminder any more';

$t->done;
