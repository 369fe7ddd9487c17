package Dsem::Node;

# One nginx: its prefix directory, its configuration with the tokens replaced,
# its processes and logs. Records the workers that the test killed, so that
# teardown can distinguish them from crashes.
#
# Called by: Dsem::Test; Dsem::Teardown reads the logs.

use strict;
use warnings;

use parent 'Dsem::Node::Conf';

use Carp qw(croak);
use Cpanel::JSON::XS ();
use File::Path qw(make_path);

use Dsem::Client;
use Dsem::Late;
use Dsem::Process;
use Dsem::Redis;
use Dsem::Wait qw(wait_for);

my $json = Cpanel::JSON::XS->new->latin1;

# lines of the error log that are of no test's teardown
my $HARMLESS = qr/^\S+ \S+ \[(?:crit|error|warn|notice|info|debug)\]/;

sub new {
    my ($class, $t, $name, $conf, %token) = @_;
    my $dir = $t->dir . "/$name";
    make_path("$dir/temp");
    return bless {
        t => $t, name => $name, dir => $dir, conf => $conf,
        token => \%token, port => {}, killed => {},
    }, $class;
}

sub name { $_[0]{name} }
sub dir { $_[0]{dir} }
sub pid { $_[0]{pid} }
sub killed { $_[0]{killed} }

sub port {
    my ($self, $n) = @_;
    return $self->{port}{ $n // 1 } //= $self->{t}->free_port;
}

sub url {
    my ($self, $path) = @_;
    return 'http://127.0.0.1:' . $self->port . ($path // '/');
}

sub client { $_[0]{client} //= Dsem::Client->new }

sub get {
    my ($self, $path, %header) = @_;
    return $self->begin($path, %header)->wait;
}

sub begin {
    my ($self, $path, %header) = @_;
    return Dsem::Redis::stall('begin', sub {
        $self->client->start($self->url($path), %header);
    });
}

# A program that asks "dsem_hold" for a permit: its connection, with nothing
# read yet.
sub ask {
    my ($self, $path, %header) = @_;
    return $self->begin($path, %header)->raw;
}

# The same, when it has the permit.
sub hold {
    my ($self, $path, %header) = @_;
    my $raw = $self->ask($path, %header);
    $raw->read_until(qr/granted\n/) =~ /granted/
        or croak "$path: no permit";
    return $raw;
}

sub raw {
    my ($self, $n) = @_;
    return $self->client->raw('127.0.0.1', $self->port($n));
}

###########################################################################
# life

# As a daemon, because nginx upgrades its binary in no other mode; the daemon's
# session is its process group. Memory that glibc gives has no zeros: what reads
# it before it is set shows itself.
sub start {
    my ($self) = @_;
    local $ENV{MALLOC_PERTURB_} = $ENV{MALLOC_PERTURB_} // 90;
    $self->write_conf;
    unlink "$self->{dir}/nginx.pid";
    my $starting = Dsem::Late::preloaded(sub {
        Dsem::Process->spawn(
            name => $self->{name}, log => "$self->{dir}/output",
            argv => [$self->_argv]);
    });
    wait_for {
        croak "$self->{name} did not start: " . $self->_slurp('output')
            if !$starting->alive && $starting->status;
        $self->_pid_in_file;
    } 10, "$self->{name} to start";
    $self->{pid} = $self->_pid_in_file;
    $self->{process} = $self->{pid} == $starting->pid ? $starting
        : Dsem::Process->adopt($self->{pid}, $self->{name});
    wait_for { $self->_all_workers } 10, "$self->{name}'s workers";
    return $self;
}

sub _slurp {
    my ($self, $file) = @_;
    open my $fh, '<', "$self->{dir}/$file" or return '';
    local $/;
    return <$fh> // '';
}

sub _pid_in_file {
    my ($self) = @_;
    my ($pid) = $self->_slurp('nginx.pid') =~ /^(\d+)$/;
    return $pid // 0;
}

sub _all_workers {
    my ($self, %old) = @_;
    return 1 if $self->{text} =~ /^\s*master_process\s+off/m;
    my ($n) = $self->{text} =~ /^\s*worker_processes\s+(\d+)/m;
    return ($n // 1) <= grep { !$old{$_} } $self->workers;
}

# pid => title of child processes
sub _children {
    my ($self) = @_;
    my %title;
    open my $fh, '<', "/proc/$self->{pid}/task/$self->{pid}/children"
        or return;
    for my $pid (split ' ', <$fh> // '') {
        open my $line, '<', "/proc/$pid/cmdline" or next;
        $title{$pid} = <$line> // '';
    }
    return %title;
}

sub _worker_pids {
    my ($self, $title) = @_;
    my %all = $self->_children;
    my @pids = sort { $a <=> $b } grep { $all{$_} =~ $title } keys %all;
    return @pids;
}

# $master: another master of this node, during a binary upgrade
sub workers {
    my ($self, $master) = @_;
    local $self->{pid} = $master // $self->{pid};
    return $self->_worker_pids(qr/worker process(?! is shutting down)/);
}

sub draining {
    my ($self) = @_;
    return $self->_worker_pids(qr/worker process is shutting down/);
}

sub cache_processes {
    my ($self) = @_;
    return $self->_worker_pids(qr/cache (?:manager|loader) process/);
}

# Resident memory of a worker, in bytes.
sub resident { return $_[0]->_statm($_[1])->[1] }

# The same without files and shared memory: these count from the first touch of
# a page, which an old master has had and a new one, forked, has not.
sub private {
    my $pages = $_[0]->_statm($_[1]);
    return $pages->[1] - $pages->[2];
}

sub _statm {
    my ($self, $pid) = @_;
    $pid //= ($self->workers)[0];
    open my $fh, '<', "/proc/$pid/statm" or croak "statm: $!";
    return [map { 4096 * $_ } split ' ', <$fh>];
}

sub alive {
    my ($self) = @_;
    return $self->{process} && $self->{process}->alive;
}

sub signal {
    my ($self, $signal) = @_;
    return kill $signal, $self->{pid};
}

# Returns when the new workers run; old ones may still be draining.
sub reload {
    my ($self, $conf) = @_;
    $self->write_conf($conf);
    my %old = map { $_ => 1 } $self->workers;
    $self->signal('HUP');
    wait_for { $self->_all_workers(%old) } 10,
        "$self->{name} to reload";
    wait_for { !grep { $old{$_} } $self->workers } 10,
        "$self->{name}'s old workers to drain";
    return $self;
}

# Upgrades to the same binary, and quits the old master.
# The signals can be the test's own: of the beginning, and of the end.
sub upgrade {
    my ($self, $begin, $end) = @_;
    $self->begin_upgrade($begin, $end);
    return $self->end_upgrade;
}

# Returns when the new workers run; the old ones may still be draining.
sub begin_upgrade {
    my ($self, $begin, $end) = @_;
    my $old = $self->{pid};
    $begin ? $begin->() : $self->signal('USR2');
    wait_for {
        my $pid = $self->_pid_in_file;
        local $self->{pid} = $pid;
        $pid && $pid != $old && $self->_all_workers;
    } 10, "$self->{name} to upgrade";
    $self->{pid} = $self->_pid_in_file;
    $end ? $end->() : CORE::kill 'QUIT', $old;
    return $self;
}

# Waits for the end of the old master.
sub end_upgrade {
    my ($self) = @_;
    $self->{process}->succeed($self->{pid});
    return $self;
}

sub _end {
    my ($self, $signal, $timeout) = @_;
    return $self unless $self->alive;
    $self->signal($signal);
    wait_for { !$self->alive } $timeout,
        "$self->{name} to end";
    return $self;
}

sub quit { $_[0]->_end('QUIT', $_[1] // 10) }
sub stop { $_[0]->_end('TERM', $_[1] // 10) }

# Kills all processes of the node: no session sends bye. Its ports are free then:
# each of them had the sockets.
sub kill {
    my ($self) = @_;
    my @workers = keys %{ { $self->_children } };
    $self->{killed}{$_} = 1 for @workers, $self->{pid};
    CORE::kill 'STOP', $self->{pid};
    # a running master would start new workers
    wait_for { _state($self->{pid}) =~ /^T?$/ } 15, "$self->{name} to stop";
    CORE::kill 'KILL', @workers, $self->{pid};
    wait_for { !$self->alive && !grep { _state($_) } @workers } 15,
        "$self->{name} to die";
    return $self;
}

# The letter for the state of a process; empty: it has ended.
sub _state {
    my ($pid) = @_;
    open my $fh, '<', "/proc/$pid/stat" or return '';
    my ($state) = (<$fh> // '') =~ /\) ([^ZX]) /;
    return $state // '';
}

sub kill_worker {
    my ($self, $pid, $signal) = @_;
    $pid //= ($self->workers)[0];
    $self->{killed}{$pid} = 1;
    CORE::kill $signal // 'KILL', $pid;
    return $pid;
}

sub freeze {
    my ($self, $pid) = @_;
    $pid //= ($self->workers)[0];
    $self->{frozen}{$pid} = 1;
    CORE::kill 'STOP', $pid;
    # it may run on for a moment, and see what comes next
    wait_for { _state($pid) =~ /^T?$/ } 15, "worker $pid to stop";
    return $pid;
}

sub thaw {
    my ($self, @pid) = @_;
    @pid = keys %{ $self->{frozen} // {} } unless @pid;
    delete @{ $self->{frozen} }{@pid};
    CORE::kill 'CONT', @pid;
    return $self;
}

###########################################################################
# logs

sub error_log { $_[0]->_slurp('error.log') }

# Without the directory's path, which could match by its name.
sub grep_log {
    my ($self, $re) = @_;
    my $dir = $self->{t}->dir;
    return grep { $_ =~ $re } split /\n/, $self->error_log =~ s/\Q$dir\E//gr;
}

sub access_log {
    my ($self) = @_;
    # without an incomplete last line
    return map { $json->decode($_) }
        split /\n/, $self->_slurp('access.log') =~ s/[^\n]+\z//r;
}

sub cleared { @{ $_[0]{cleared} // [] } }

# The line of one request (Dsem::Client::Request); waits, because nginx writes
# it after the response.
sub logged {
    my ($self, $request) = @_;
    return wait_for {
        my ($line) = grep { $_->{http_x_nonce} eq $request->nonce }
            $self->access_log;
        $line;
    } undef, $request->nonce . ' in the access log';
}

# The teardown sees all the same what no test may hide.
sub clear_logs {
    my ($self) = @_;
    push @{ $self->{cleared} }, grep { !/$HARMLESS/ } $self->grep_log(qr/./);
    # nginx appends, so it continues at the beginning of the empty file
    truncate "$self->{dir}/$_", 0 for qw(error.log access.log);
    return $self;
}

1;
