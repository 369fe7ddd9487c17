#!/usr/bin/perl

# Many reloads leave nothing behind: memory, files, shared memory and processes
# of the master stay flat, and so do the files of a worker and what Redis has.
# Requests are served and the API replies after each of them; some requests run
# through a reload.

use lib 't/lib';
use Cpanel::JSON::XS qw(decode_json);
use Dsem::Test;

# addresses of mappings
no warnings 'portable';

my $RELOADS = $ENV{DSEM_LONG} ? 10_000 : 30;
# measured first after so many, when caches and free lists are filled, and with
# LONG=1 the log of the last 512 sessions that have ended
my $FIRST = $ENV{DSEM_LONG} ? 500 : 10;
# every so many reloads a request runs through one
my $THROUGH = $ENV{DSEM_LONG} ? 50 : 10;
# KB of the master, between the first and the last measurement: one page more
# or less is chance, a leak of 64 bytes a reload is 640 KB in 10,000; sanitizers
# keep what was freed
my $FLAT = 256 * ($ENV{DSEM_TIME_FACTOR} || 1);
# bytes in Redis: numbers get longer, and keys have a few bytes to spare
my $REDIS = 512;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $up = $t->upstream;

# a secret is in memory of its own
$redis->cmd(qw(ACL SETUSER app on >secret ~* &* +@all));
my $file = $t->dir . '/password';
open my $fh, '>', $file or die "$file: $!";
print $fh "secret\n";
close $fh;

my $node = $t->node('a', <<'EOF_CONF', FILE => $file);
worker_processes 2;
dsem_redis %%REDIS%% user=app password_file=%%FILE%%;
map $arg_n $tenant_limit { default 5; 0 0; }
server {
    listen 127.0.0.1:%%PORT%%;
    location /one {
        dsem one limit=3 queue=20;
        dsem "tenant:$arg_n" limit=$tenant_limit weight=2;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /refused {
        dsem refused limit=0;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /dsem/ {
        dsem_api write=on;
    }
}
EOF_CONF

my $master = $node->pid;

sub kb { return $node->resident($master) / 1024 }

sub files {
    my ($pid) = @_;
    return scalar(my @fds = glob "/proc/$pid/fd/*");
}

sub worker_files {
    my ($worker) = $node->workers;
    return files($worker);
}

# KB that are shared with the workers, and the number of all mappings
sub mapped {
    open my $maps, '<', "/proc/$master/maps" or die "maps: $!";
    my ($shared, $n) = (0, 0);
    while (<$maps>) {
        $n++;
        $shared += (hex($2) - hex $1) / 1024 if /^(\w+)-(\w+) ..[-x]s/;
    }
    return ($shared, $n);
}

sub bytes_in_redis {
    my $sum = 0;
    $sum += $redis->cmd('MEMORY', 'USAGE', $_, 'SAMPLES', 0) // 0
        for @{ $redis->cmd('KEYS', '*') };
    return $sum;
}

# it waits for the next signal, and has closed what it had of old workers
sub sleeps {
    open my $stat, '<', "/proc/$master/stat" or die "stat: $!";
    return <$stat> =~ /\) S /;
}

# each worker with its connections, no other session, no channel of an old one,
# no idle permit
sub settled {
    return !$node->draining && $t->state->session_count == 2
        && $t->state->subscribed == 2
        && !$t->state->names && sleeps();
}

sub measure {
    wait_for { settled() } 15, 'only live sessions';
    my ($shared, $mappings) = mapped();
    return { kb => kb(), shared => $shared,
        mappings => $mappings, worker => worker_files(),
        keys => scalar @{ $redis->cmd('KEYS', '*') },
        redis => bytes_in_redis() };
}

my (@failed, $first, $least, $slowest, @kb);
for my $n (1 .. $RELOADS) {
    my $through = $n % $THROUGH == 0 ? $node->begin("/one?n=$n&hang=1") : undef;
    wait_for { $up->now == 1 } 15, 'request running' if $through;
    my $began = now;
    $node->reload;
    if ($through) {
        push @failed, "$n: old worker gone" if !$node->draining;
        $up->release_all;
        push @failed, "$n: long request lost" if $through->wait->status != 200;
    }
    wait_for { !$node->draining } 15, 'old workers gone';
    my $took = now - $began;
    $slowest = $took if $took > ($slowest // 0);

    my ($path, $status) = @{ (['/one?n=1', 200], ['/refused', 503],
        ['/one?n=0', 503], ['/dsem/metrics', 200])[ $n % 4 ] };
    my $got = $node->get($path)->status;
    push @failed, "$n: $path $got" if $got != $status;
    my $all = decode_json($node->get('/dsem/semaphores')->body);
    # recovering: on a busy machine there was no command for most of a lease
    push @failed, "$n: redis $all->{redis}{state}"
        if $all->{redis}{state} eq 'unavailable';

    $first = measure() if $n == $FIRST;
    $least = files($master)
        if $n >= $FIRST && files($master) < ($least // 1000);
    if ($n % ($RELOADS / 10) == 0) {
        push @kb, kb();
        is join("\n", grep { !/dsem rejected/ }
                $node->grep_log(qr/\[(?:warn|error|crit|alert|emerg)\]/)),
            '', "$n reloads: no warning logged";
        $node->clear_logs;
    }
}

is "@failed[0 .. ($#failed < 4 ? $#failed : 4)]", '',
    'each request served after each reload';
my $last = measure();
cmp_ok $last->{kb} - $first->{kb}, '<=', $FLAT, 'memory of the master flat';
is $last->{$_}, $first->{$_}, "$_ flat" for qw(shared mappings);
# the least, as it may not have closed the channels of old workers yet
eventually { files($master) <= $least } 'files flat';
# it may not have seen yet that a client has closed its connection
eventually { worker_files() <= $first->{worker} } 'worker flat';
cmp_ok $last->{keys}, '<=', $first->{keys}, 'no more keys';
# sessions that have ended are known for one more lease
eventually { bytes_in_redis() <= $first->{redis} + $REDIS }
    'memory of redis flat', 30 if $ENV{DSEM_LONG};
is scalar($node->workers), 2, 'two workers';
eventually { !$t->state->exists('one') } 'nothing held, none waiting';

my $held = $node->begin('/one?n=1&hang=1');
wait_for { $up->now == 1 } 15, 'request running';
# a reply of the API may be some 100 ms old
eventually {
    my $all = decode_json($node->get('/dsem/semaphores')->body);
    my ($one) = grep { $_->{name} eq 'one' } @{ $all->{semaphores} };
    $one && $one->{local}{in_use} == 1;
} 'what is held now is still known';
is $up->release_all, 1, 'request running';
is $held->wait->status, 200, 'request served';

note("master, KB: $first->{kb} after $FIRST reloads, then @kb; files: "
    . "$least; shared: $last->{shared} KB; mappings: "
    . "$last->{mappings}; files of a worker: $last->{worker}; redis: "
    . "$first->{redis}, then $last->{redis} bytes in keys; slowest reload: "
    . sprintf('%.2f s', $slowest));

$t->done;
