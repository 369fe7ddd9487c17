#!/usr/bin/perl

# Pods as processes see them: nginx is process 1 of its own PID, network and
# hostname namespaces, with the nginx.conf of packaging/kubernetes. Two pods with
# one hostname keep one limit and separate sessions; a restarted one has new
# sessions; preStop ends a pod without a loss; probes do not depend on Redis.

use lib 't/lib';
use Dsem::Client::Raw;
use Dsem::Client::Request;
use Dsem::Node;
use Dsem::Pages;
use Dsem::Process;
use Dsem::Test;

my @UNSHARE = qw(unshare -u -p -n --mount-proc -f --kill-child);

plan skip_all => 'needs root and namespaces'
    if $> || system(join ' ', @UNSHARE, 'true 2>/dev/null');

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $up = $t->upstream(unix => 1);
my $manifest = page('packaging/kubernetes/nginx.yaml');
my ($conf) = $manifest =~ /^  nginx\.conf: \|\n((?: {4}.*\n|\n)+)/m;
$conf =~ s/^ {4}//mg;
my ($stop) = $manifest =~ /^ +- (sleep 5; kill -QUIT [^\n]*\n[^\n]*done)\n/m;

my @pods = pod('one');
eventually { sessions() == 2 } 'a session of each worker';
my @lost = sessions();
push @pods, pod('two');

# one hostname, the same process numbers

eventually { sessions() == 4 } 'and of each worker of the other';
my @first = sessions();
is scalar(grep { /^web-0:[01]:[0-9a-f]{16}$/ } @first), 4, 'one hostname';
my @numbers = map { join ' ', inside($_->pid), map { inside($_) } $_->workers }
    @pods;
is $numbers[0], $numbers[1], 'same process numbers';
like $numbers[0], qr/^1 /, 'nginx is process 1';

my @running = map { begin($_, '?hang=1') } @pods;
eventually { $up->now == 2 } 'a permit for each pod';
my $waits = begin($pods[0], '?hang=1');
eventually { $t->state->waiting('reports') == 1 } 'a third request waits';
is $up->peak, 2, 'one limit';

# one of them is lost

$pods[0]->kill;
restart($pods[0]);
eventually {
    2 == grep { my $id = $_; !grep { $_ eq $id } @first } sessions();
} 'new sessions';
eventually { $up->now == 1 } 'the request of the other one runs';
# unless the leases have ended by themselves
eval { $t->state->lapse(@lost) };
my $next = begin($pods[0], '?hang=1');
eventually { $up->now == 2 } 'the permit of the lost pod is back';
is $up->peak, 2, 'limit never exceeded';
$up->release_all;
is $_->wait->status, 200, 'served' for $running[1], $next;

# preStop, as the manifest has it

my @last = map { begin($pods[0], '?hang=1') } 1 .. 3;
eventually { $up->now == 2 && $t->state->waiting('reports') == 1 }
    'two running, one waiting';
my $pre_stop = Dsem::Process->spawn(name => 'preStop',
    log => $t->dir . '/preStop', argv => [ entered($pods[0], 'mpun'), 'sh',
        '-c', localized($pods[0], $stop) ]);
eventually { $pods[0]->grep_log(qr/gracefully shutting down/) == 2 }
    'exits gracefully';
ok $pods[0]->alive, 'the pod waits for its requests';
wait_for { $up->release_all; !grep { !$_->done } @last } 15, 'the end';
is $_->wait->status, 200, 'served before the end' for @last;
eventually { !$pods[0]->alive && !$pre_stop->alive } 'the pod has ended';
eventually { sessions() == 2 } 'its sessions have signed off';

# a request that does not end

my $stuck = begin($pods[1], '?hang=1');
eventually { $up->now == 1 } 'a request runs';
$pods[1]->signal('QUIT');
eventually { !$pods[1]->alive } 'ended by worker_shutdown_timeout';
eventually { !sessions() } 'no session left';
wait_for { $stuck->done } 15, 'the end';

# probes

restart($pods[0]);
eventually { sessions() == 2 } 'started';
is probe('/health'), 204, 'nginx healthy';
eventually { probe('/dsem/health') eq '200' } 'Redis available';
$redis->stop;
eventually { probe('/dsem/health') eq '503' } 'Redis unavailable';
is probe('/health'), 204, 'the pod stays ready';

done_testing;

###############################################################################

sub sessions { $t->state->sessions }

sub pod {
    my ($name) = @_;
    my $node = Dsem::Node->new($t, $name, '');
    push @{ $t->{nodes} }, $node;
    $node->write_conf(localized($node, "user root;\n$conf"));
    return restart($node);
}

# With the paths of this test; Redis and the backend are reached through sockets.
sub localized {
    my ($node, $text) = @_;
    my ($dir, $module) = ($node->dir, Dsem::Node::Conf::module() // '');
    for ($text) {
        s{^load_module .*\n}{$module ? "load_module $module;\n" : ''}me;
        s{(?<= )/tmp/}{$dir/}g;
        s{/dev/stderr}{$dir/error.log};
        s{/dev/stdout fleet}{$dir/access.log fleet};
        s{\bredis:6379}{'unix:' . $redis->unix}e;
        s{\bbackend:8080}{'unix:' . $up->socket}e;
        s{listen 8080}{listen unix:$dir/http};
        s{limit=auto min=5 max=200}{limit=2};
        s{timeout=10s}{timeout=60s};
        s{shutdown_timeout 40s}{shutdown_timeout 3s} if $node->name eq 'two';
        s{sleep 5;}{};
    }
    return $text;
}

sub restart {
    my ($node) = @_;
    unlink $node->dir . '/http';
    my @argv = $node->_argv('-g', 'daemon off;');
    $node->{process} = Dsem::Process->spawn(name => $node->name,
        log => $node->dir . '/output', argv => [ @UNSHARE, 'sh', '-c',
            'busybox hostname web-0 && busybox ip link set lo up '
            . '&& exec "$@"', 'sh', @argv ]);
    my $outer = $node->{process}->pid;
    wait_for {
        my ($child) = children($outer);
        $child && ($node->{pid} = $child) && $node->workers == 2
    } 15, 'the pod to start';
    return $node;
}

sub children {
    my ($pid) = @_;
    open my $fh, '<', "/proc/$pid/task/$pid/children" or return;
    return split ' ', <$fh> // '';
}

# The number of a process in its namespace.
sub inside {
    my ($pid) = @_;
    open my $fh, '<', "/proc/$pid/status" or return '';
    return (map { /^NSpid:.*\t(\d+)$/ } <$fh>)[0];
}

sub entered {
    my ($node, $namespaces) = @_;
    return ('nsenter', '-t', $node->pid, map { "-$_" } split //, $namespaces);
}

my $n;
sub begin {
    my ($node, $query) = @_;
    return Dsem::Client::Request->new(
        Dsem::Client::Raw->new($node->dir . '/http'), "/reports/$query",
        { 'X-Nonce' => 'pods-' . ++$n }, {});
}

# As kubelet asks: from the pod's network.
sub probe {
    my ($path) = @_;
    my @command = (entered($pods[0], 'n'), qw(curl -s -o /dev/null -w),
        '%{http_code}', "http://127.0.0.1:8081$path");
    return scalar qx(@command);
}
