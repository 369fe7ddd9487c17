package Dsem::Test;

# The harness: one object per test file, which owns the test's directory
# build/t/<folder>/<name>/, every process started from it, and the teardown.
#
#   use Test::More;
#   use Dsem::Test;                     # wait_for, eventually, now, took
#
#   my $t = Dsem::Test->new;
#   my $redis = $t->redis;              # Dsem::Redis, private server
#   my $up = $t->upstream(service => 0.020);            # Dsem::Upstream
#   my $node = $t->node('a', <<'EOF_CONF');             # Dsem::Node
#   %%GLOBALS%%
#   events { }
#   http {
#       %%HTTP%%
#       dsem_redis %%REDIS%%;
#       dsem_node %%NODE%%;
#       server {
#           listen 127.0.0.1:%%PORT%%;
#           location / { dsem a limit=2; proxy_pass http://%%UPSTREAM%%; }
#       }
#   }
#   EOF_CONF
#   is($node->get('/?t=5')->status, 200, 'passed');
#   eventually { $up->now == 0 } 'permit back';
#   $t->done;                           # optional: END does it too
#
# Tokens: %%PORT%% %%PORT2%%.. (kept over reload), %%REDIS%% %%REDIS_UNIX%%
#   (of the last $t->redis), %%UPSTREAM%% (host:port of the last upstream),
#   %%SENTINELS%% %%MASTER%% (of $t->sentinel), %%DNS%% (of the last $t->dns),
#   %%DIR%% (the node's prefix), %%NODE%%, %%GLOBALS%% (load_module,
#   error_log, pid, user), %%HTTP%% (temporary paths, access log, long Redis
#   timeouts and a short dsem_reuse unless the test sets its own); and those passed as arguments:
#   $t->node('a', $conf, REDIS => $proxy->address). An unknown token dies.
#
# Test: new(%opt: lease => 5 s of the module for teardown), dir, plan($n)
#   (else the number is not planned; teardown adds its own), done,
#   redis(%opt) upstream(%opt) node($name, $conf, %tokens)
#   sentinel(%opt) (Dsem::Sentinel: a set of servers and sentinels; a Cluster
#   is a Dsem::Cluster),
#   fleet($n, $conf, %tokens) (nodes n1..), proxy($address), client,
#   dns(name => [addresses]),
#   load(%opt) (runs to the end, returns the result), load_start(%opt)
#   (returns Dsem::Load with ->wait), test_conf($conf, %tokens): (exit status,
#   stderr) of nginx -t, script($name): assembled Lua text, state: what the
#   first Redis has (Dsem::State), connect: a subscriber (Dsem::Redis::Client),
#   expect_log(qr//): this alert is expected, expect_held($n): so many permits
#   may remain in Redis.
# wait_for { cond } $timeout, 'what'    dies after the timeout (15 s)
# eventually { cond } 'test name', $timeout     the same as an assertion
# now                                   monotonic seconds, as in all logs
# took($from, $to)      seconds between two times ($to: now), without those in
#   which the machine stalled: for upper bounds. Lower bounds take all time:
#   cmp_ok took($begun), '<', 2, 'in time'; cmp_ok now - $begun, '>', 1, 'late'
#
# Redis: cmd(@args) (a list reply is an array reference, errors die), client,
#   address, port, unix, pid, stop start kill freeze thaw empty client_kill,
#   calls: commands processed so far by name, beats($n, what, timeout): waits
#   for so many heartbeats, recovering, log. Options: args => [...]
#   (redis-server's), password.
# Upstream (the oracle): address(es), peak($sem) now($sem) served aborted
#   started, order (nonces by start), log (records: nonce uri node sem weight
#   start end how=answered|closed|hanging), reset, release_all, release($n)
#   release_nonce($nonce), connections, levels($sem), mean (service, s),
#   goodput($limit, $from, $to, $sem) 0..1, worst (the same, of the worst
#   second). Options: service (s), ports.
#   Arguments of a request: ?t=ms, hang=1, size=bytes,
#   stream=pieces&every=ms, status=code, close=1, rst=1, cut=bytes (of the
#   response, then FIN), and headers X-Service (s), X-Weight, X-Sem, X-Nonce
#   (echoed), X-Node; Upgrade gets 101 and an echo until closed.
# Node: get($path, %headers) (blocking, Dsem::Client::Request), begin($path,
#   %headers) (in flight), raw (Dsem::Client::Raw), port($n), url($path),
#   pid, dir, workers([$master]), draining, alive, reload([$conf]), upgrade,
#   quit, stop, kill (all at once), kill_worker([$pid, $signal]), freeze([$pid])
#   thaw([$pid]), error_log, grep_log(qr//), access_log (hashes: request_id
#   status dsem_status dsem_name dsem_wait_time dsem_queue_position
#   dsem_limit dsem_in_use request_uri request_time pid ...), logged($request)
#   (waits for its line of the access log), clear_logs.
# Request: done, wait([timeout]), status, header($name), headers, body,
#   latency, took (latency without stalls, for upper bounds), error, close
#   (FIN), abort (RST), sock. Options among headers:
#   -method -body -version.
# Raw: send($bytes), read([timeout]) (available bytes), read_until(qr//),
#   read_eof, shutdown, close, reset (RST), sock.
# Load: urls => [...] or request => sub { my $i = shift; ($url, %headers) },
#   clients => 300 (closed loop) or rate => 500 (open loop, per second),
#   requests => n or seconds => s, keepalive => 1, timeout => 30,
#   abort => sub { seconds or undef }, records => 1. Result: statuses
#   {code|word => n}, count, seconds, rate, p50 p90 p99 max mean (s, of 200s),
#   mismatched (nonces), records [{url nonce start latency status}].
# Proxy: address, accepted, open, bytes ({c2s, s2c}), cut (FIN) reset (RST)
#   freeze($dir) thaw delay($seconds, $dir) swallow(every => n, match => 're',
#   count => n, dir => 's2c') swallowed pieces
#   cut_after($bytes, $dir) slice($bytes, $pause) inject($bytes, $dir) refuse(1|0)
#   retarget($address).
# Dns: address, set($name, @addresses) (none: NXDOMAIN), silent(1|0), questions.
#   (swallow: by default every pub/sub message; without arguments: no more).
#   $dir is c2s, s2c or both.
#
# Environment: DSEM_NGINX, DSEM_MODULE, DSEM_STATIC_NGINX=1 (module linked in),
#   DSEM_REDIS_SERVER, DSEM_DEBUG=1, DSEM_LONG=1, DSEM_TIME_FACTOR,
#   DSEM_KEEP=1 (keep build/t/<folder>/<name>/ of a test that passed),
#   DSEM_LUA (another folder of scripts than lua/, see Dsem::Branches).

use strict;
use warnings;

use Test::More ();
use Carp qw(croak);
use Cwd qw(abs_path);
use File::Basename qw(basename dirname);
use File::Path qw(make_path remove_tree);

use Dsem::Client;
use Dsem::Dns;
use Dsem::Load;
use Dsem::Metronome;
use Dsem::Node;
use Dsem::Ports;
use Dsem::Process;
use Dsem::Proxy;
use Dsem::Redis;
use Dsem::Sentinel;
use Dsem::State;
use Dsem::Teardown;
use Dsem::Upstream;
use Dsem::Wait qw(wait_for eventually now took);

our $ROOT = abs_path(dirname(__FILE__) . '/../../..');

my $builder = Test::More->builder;
my $current;

sub import {
    my $caller = caller;
    no strict 'refs';
    no warnings qw(redefine prototype);
    *{"${caller}::$_"} = \&$_ for qw(wait_for eventually now took);
    # a test that ends with done_testing() runs the teardown before it
    *{"${caller}::done_testing"} = sub {
        $current ? $current->done : $builder->done_testing(@_);
    };
}

###########################################################################
# life

sub new {
    my ($class, %opt) = @_;
    croak 'one Dsem::Test per file' if $current;

    # the folder too: two folders may have tests of one name
    my $name = abs_path($0) =~ s{^\Q$ROOT\E/t/}{}r =~ s{\.t$}{}r;
    $name = basename($name) if $name =~ m{^/};
    my $dir = "$ROOT/build/t/$name";
    remove_tree($dir);
    make_path($dir);

    $SIG{PIPE} = 'IGNORE';
    $SIG{$_} = sub { exit 1 } for qw(INT TERM HUP);

    start_metronome("$dir/metronome") unless $ENV{DSEM_METRONOME};

    return $current = bless {
        dir => $dir, lease => 5, expected => [], expect_held => 0,
        owner_pid => $$, redis => [], upstreams => [], nodes => [],
        proxies => [], dns => [], loads => [], %opt,
    }, $class;
}

# For a file that runs alone; Dsem::Suite has one for all.
sub start_metronome {
    my ($path) = @_;
    my $parent = $$;
    $ENV{DSEM_METRONOME} = $path;
    Dsem::Process->spawn(name => 'metronome', log => "$path.log",
        code => sub { Dsem::Metronome::run($path, $parent) });
}

sub dir { $_[0]{dir} }
sub root { $ROOT }
sub nodes { @{ $_[0]{nodes} } }
sub loads { @{ $_[0]{loads} } }

sub plan {
    my ($self, $n) = @_;
    $builder->plan(tests => $n + Dsem::Teardown::COUNT);
    return $self;
}

sub expect_log {
    my ($self, $re) = @_;
    push @{ $self->{expected} }, $re;
    return $self;
}

sub expect_held {
    my ($self, $n) = @_;
    $self->{expect_held} = $n;
    return $self;
}

# Ends the test: runs the teardown and stops everything. Once.
sub done {
    my ($self) = @_;
    return if $self->{done}++;
    Dsem::Teardown::check($self);
    Dsem::Process->end_all;
    $builder->done_testing unless $builder->has_plan
        || $builder->expected_tests;
    $self->_keep_branches;
    remove_tree($self->{dir})
        if $builder->is_passing && !$ENV{DSEM_KEEP};
}

# Scripts that count their branches (Dsem::Branches) have logged these. One
# file per test: several tests end at the same time.
sub _keep_branches {
    my ($self) = @_;
    my $taken = ($ENV{DSEM_LUA} // return) . '/taken';
    make_path($taken);
    my $name = $self->{dir} =~ s{^\Q$ROOT\E/build/t/}{}r =~ tr{/}{-}r;
    system "find $self->{dir} -name log -exec grep -aho '# branches [0-9 ]*'"
        . " {} + | tr -s ' ' '\\n' | sort -u > $taken/$name";
}

# A test that died gets no teardown checks.
END {
    if ($current && $current->{owner_pid} == $$) {
        my $status = $?;
        eval { $current->done; 1 } or do { $builder->diag($@); $status ||= 1 }
            if !$status && $builder->current_test;
        Dsem::Process->end_all;
        $current->_keep_branches unless $current->{done};
        $? = $status;
    }
}

###########################################################################
# parts of a test

sub redis {
    my ($self, %opt) = @_;
    my $n = @{ $self->{redis} } + 1;
    my $redis = Dsem::Redis->new($self, "redis$n", %opt);
    push @{ $self->{redis} }, $redis;
    return $redis;
}

sub sentinel {
    my ($self, %opt) = @_;
    return $self->{sentinel} = Dsem::Sentinel->new($self, %opt);
}

sub upstream {
    my ($self, %opt) = @_;
    my $n = @{ $self->{upstreams} } + 1;
    my $up = Dsem::Upstream->new($self, "upstream$n", %opt);
    push @{ $self->{upstreams} }, $up;
    return $up;
}

sub proxy {
    my ($self, $target) = @_;
    my $n = @{ $self->{proxies} } + 1;
    my $proxy = Dsem::Proxy->new($self, "proxy$n", $target);
    push @{ $self->{proxies} }, $proxy;
    return $proxy;
}

sub dns {
    my ($self, %record) = @_;
    my $n = @{ $self->{dns} } + 1;
    my $dns = Dsem::Dns->new($self, "dns$n", %record);
    push @{ $self->{dns} }, $dns;
    return $dns;
}

sub node {
    my ($self, $name, $conf, %token) = @_;
    my $node = Dsem::Node->new($self, $name, $conf, %token);
    push @{ $self->{nodes} }, $node;
    return $node->start;
}

sub fleet {
    my ($self, $n, $conf, %token) = @_;
    return map { $self->node("n$_", $conf, %token) } 1 .. $n;
}

sub client { Dsem::Client->new }

sub load_start {
    my ($self, %opt) = @_;
    my $load = Dsem::Load->new($self, %opt);
    push @{ $self->{loads} }, $load;
    return $load;
}

sub load {
    my ($self, %opt) = @_;
    return $self->load_start(%opt)->wait;
}

# What the first Redis has.
sub state {
    my ($self) = @_;
    return Dsem::State->new($self->{redis}[0]);
}

# A new connection to the last Redis, for subscriptions.
sub connect {
    my ($self) = @_;
    return $self->{redis}[-1]->client;
}

sub test_conf {
    my ($self, $conf, %token) = @_;
    return Dsem::Node->new($self, 'conf', $conf, %token)->test;
}

sub script {
    my ($self, $name) = @_;
    my $lua = $ENV{DSEM_LUA} // "$ROOT/lua";
    open my $fh, '-|', 'awk', '-v', "dir=$lua", '-v', 'text=1', '-f',
        "$ROOT/lua/embed.awk", $name or croak "awk: $!";
    local $/;
    my $text = <$fh>;
    close $fh or croak "script $name cannot be assembled";
    return $text;
}

sub free_port { return Dsem::Ports::free_port() }

1;
