package Bench::Hold;

# Programs that hold permits with "dsem_hold": what each costs a worker, and how
# soon the next one has the permit of one that was killed. Each measurement of
# memory has a worker of its own, so that no memory is used twice.
#
# Called by: hold.pl.

use strict;
use warnings;

use Carp qw(croak);
use Time::HiRes qw(sleep);

use Bench::Proc;
use Dsem::Node::Conf;
use Dsem::Process;
use Dsem::State;
use Dsem::Wait qw(now wait_for);

# sent together by one client
use constant BATCH => 50;

my $CONF = <<'EOF_CONF';
load_module %%MODULE%%;
%%START%%
worker_processes 1;
worker_rlimit_nofile 20000;
events { worker_connections 16384; }
http {
    dsem_redis %%REDIS%%;
    dsem_redis_timeout 10s;
    dsem_node %%NODE%%;
    access_log off;
    keepalive_timeout 1h;
    %%POOL%%
    limit_req_zone $server_port zone=slow:1m rate=1r/m;
    server {
        listen 127.0.0.1:%%PORT%% backlog=4096;
        location /jobs { dsem jobs limit=100000 queue=10; dsem_hold; }
        location /one {
            dsem one limit=1 queue=10 timeout=60s;
            dsem_hold;
        }
        location /idle { return 204; }
        location /delayed { limit_req zone=slow burst=100000; empty_gif; }
    }
}
EOF_CONF

# holders: of the measurements of CPU and memory
sub new {
    my ($class, $stage, $holders) = @_;
    my $self = bless { stage => $stage, holders => $holders }, $class;
    $self->{state} = Dsem::State->new($stage->redis);
    return $self;
}

sub node {
    my ($self, $name, $pool) = @_;
    return $self->{stage}->node($name, $CONF,
        MODULE => Dsem::Node::Conf::module(),
        REDIS => $self->{stage}->redis->address,
        POOL => $pool ? "request_pool_size $pool;" : '');
}

# Connections with a request each, in batches: of an answer that $answered
# matches, if there is to be one.
sub connections {
    my ($self, $node, $path, $answered) = @_;
    my @all;
    while (@all < $self->{holders}) {
        my @batch = map { $node->raw } 1 .. BATCH;
        $_->send("GET $path HTTP/1.1\r\nHost: a\r\n\r\n") for @batch;
        push @all, @batch;
        next if !$answered;
        $_->read_until($answered) =~ $answered or croak "$path: no answer"
            for @batch;
    }
    return @all;
}

# Bytes of a worker for each connection; of holders also the part of a core
# that they use in these seconds.
sub cost {
    my ($self, $name, $path, $answered, %opt) = @_;
    my $node = $self->node($name, $opt{pool});
    my $worker = ($node->workers)[0];
    # what any first request needs, and one that is not delayed
    my @first = map {
        $node->raw->send("GET $path HTTP/1.1\r\nHost: a\r\n\r\n")
    } 1 .. 2;
    wait_for { length $first[0]->read(0) } 15, 'the first answer';
    my $before = $node->private;
    my @all = $self->connections($node, $path, $answered);
    wait_for { $self->accepted($worker) >= @all } 60, 'all connections';
    my $bytes = ($node->private - $before) / @all;
    my $part;
    if ($opt{seconds}) {
        my ($cpu, $begin) = (Bench::Proc::cpu($worker), now);
        sleep $opt{seconds};
        $part = (Bench::Proc::cpu($worker) - $cpu) / (now - $begin);
    }
    $_->close for @all, @first;
    $node->stop(60);
    return ($bytes, $part);
}

# Descriptors of the worker.
sub accepted {
    my ($self, $worker) = @_;
    opendir my $dir, "/proc/$worker/fd" or croak "/proc/$worker/fd: $!";
    return scalar(() = readdir $dir);
}

# A holder in a process of its own.
sub holder {
    my ($self, $node) = @_;
    my $log = $self->{stage}->dir . '/holder.' . ++$self->{n};
    my $process = Dsem::Process->spawn(name => 'holder', log => $log,
        code => sub {
            my $raw = $node->hold('/one');
            print "granted\n";
            sleep 3600;
        });
    wait_for { -s $log } 15, 'a holder';
    return $process;
}

# ms from the SIGKILL of a holder until the next one, at another node, has read
# that it has the permit; of each round.
sub handed_on {
    my ($self, $rounds) = @_;
    my @nodes = map { $self->node("handed$_") } 1, 2;
    my @ms;
    for my $n (1 .. $rounds) {
        my $holder = $self->holder($nodes[0]);
        my $next = $nodes[1]->ask('/one');
        wait_for { $self->{state}->waiting('one') == 1 } 15, 'one to wait';
        my $begin = now;
        $holder->signal('KILL');
        $next->readable(30);
        push @ms, 1000 * (now - $begin);
        $next->read_until(qr/granted/);
        $next->close;
        $holder->end;
        wait_for { !$self->{state}->held('one') } 15, 'the permit back';
    }
    return @ms;
}

1;
