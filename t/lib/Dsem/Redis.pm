package Dsem::Redis;

# A private redis-server: no persistence, TCP and unix socket, log in the test's
# directory. The test stops, kills, freezes or empties it. With DSEM_ACL=1
# nginx is the user of docs/redis.md, for any prefix, and the test the default one.
#
# With the option later => 1 it is not started by new: start does, or, for
# several at a time, launch and then ready.
#
# With DSEM_STALL=release, or begin, every server of the test stands still when
# the test releases requests at the backend, or begins one.
#
# Called by: Dsem::Test, Dsem::Sentinel, Dsem::Cluster; Dsem::Upstream and
# Dsem::Node for DSEM_STALL.

use strict;
use warnings;

use Carp qw(croak);
use File::Path qw(make_path);

use Dsem::Pages;
use Dsem::Process;
use Dsem::Redis::Client;
use Dsem::State;
use Dsem::Wait qw(now wait_for);

# s; a worker waits 30 ms for a reply before it goes on without
use constant STALL => 0.05;

my @all;

sub new {
    my ($class, $t, $name, %opt) = @_;
    my $dir = $t->dir . "/$name";
    make_path($dir);
    my $self = bless {
        t => $t, name => $name, dir => $dir, port => $t->free_port,
        args => [], %opt,
    }, $class;
    push @all, $self;
    $self->{tls}{port} = $t->free_port if $self->{tls};
    return $self->{later} ? $self : $self->start;
}

sub name { $_[0]{name} }
sub port { $_[0]{port} }
sub address { "127.0.0.1:$_[0]{port}" }
sub tls_address { "127.0.0.1:$_[0]{tls}{port}" }
sub unix { "$_[0]{dir}/redis.sock" }
sub pid { $_[0]{process}->pid }
sub log { "$_[0]{dir}/log" }

# the user that nginx is, and its parameters of "dsem_redis"
sub user { $ENV{DSEM_ACL} ? 'dsem' : 'default' }
sub login { $ENV{DSEM_ACL} ? ' user=dsem password=password' : '' }

# Writes the ACL file. Returns the arguments for it.
sub _acl {
    my ($self) = @_;
    return if !$ENV{DSEM_ACL} || $self->{conf};
    my ($user) = page('docs/redis.md') =~ /^```\n(user dsem .*?)^```$/ms
        or croak 'no user in docs/redis.md';
    $user = join ' ', split ' ', $user =~ s/([~&])dsem:/$1*:/gr;
    open my $acl, '>', "$self->{dir}/acl" or croak $!;
    print $acl "user default on nopass ~* &* +\@all\n$user\n";
    close $acl;
    return ('--aclfile', "$self->{dir}/acl");
}

sub running {
    my ($self) = @_;
    return $self->{process} && $self->{process}->alive;
}

sub start {
    my ($self) = @_;
    return $self if $self->running;
    return $self->launch->ready;
}

sub launch {
    my ($self) = @_;
    delete $self->{client};
    $self->{process} = Dsem::Process->spawn(
        name => $self->{name}, log => $self->log,
        argv => [
            '/usr/bin/env', $ENV{DSEM_REDIS_SERVER} // 'redis-server',
            # a file comes first
            $self->{conf} // (),
            '--bind', '127.0.0.1', '--port', $self->{port},
            '--unixsocket', $self->unix, '--dir', $self->{dir},
            '--save', '', '--appendonly', 'no', '--loglevel', 'notice',
            # a replica need not wait for others that might come
            ($self->{conf} ? () : qw(--repl-diskless-sync-delay 0)),
            $self->_acl,
            map({ ("--tls-$_", $self->{tls}{$_}) } sort keys
                %{ $self->{tls} // {} }),
            @{ $self->{args} },
        ]);
    return $self;
}

sub ready {
    my ($self) = @_;
    wait_for {
        croak "$self->{name} did not start, see " . $self->log
            unless $self->running;
        eval { $self->cmd('PING') };
    } 10, "$self->{name} to start";
    return $self;
}

# A new connection of the test.
sub client {
    my ($self) = @_;
    return Dsem::Redis::Client->new($self->unix, $self->{password});
}

# With the option reconnect the command is sent again where a sentinel has
# closed the connection, as it does when it changes the role of a server.
sub cmd {
    my ($self, @args) = @_;
    $self->{client} //= $self->client;
    return $self->{client}->cmd(@args) unless $self->{reconnect};
    my $reply;
    return $reply if eval { $reply = $self->{client}->cmd(@args); 1 };
    croak $@
        unless $@ =~ /(?:reading from|write to) Redis|closed|EOF|connect/i;
    $self->{client} = $self->client;
    return $self->{client}->cmd(@args);
}

# A write whose reply does not matter, in the round trip of the next command.
sub later {
    my ($self, @args) = @_;
    $self->{client} //= $self->client;
    $self->{client}->later(@args);
}

sub stop {
    my ($self) = @_;
    return $self->_end('TERM');
}

sub kill {
    my ($self) = @_;
    return $self->_end('KILL');
}

sub _end {
    my ($self, $signal) = @_;
    $self->written;
    delete $self->{client};
    $self->thaw if $self->{frozen} && $signal ne 'KILL';
    $self->{frozen} = 0;
    $self->{process}->signal($signal) if $self->running;
    $self->{process}->wait_exit(10) or croak "$self->{name} does not stop";
    unlink $self->unix;
    return $self;
}

# Returns when all that the test has seen here is on its way to the workers, too:
# Redis writes the replies and messages of one turn before it reads the next
# command. The test may get its own reply earlier.
sub written {
    my ($self) = @_;
    eval { $self->{client}->cmd('PING') }
        if $self->{client} && $self->running && !$self->{frozen};
    return $self;
}

# Returns when this replica has all that the other server has now.
sub follows {
    my ($self, $master) = @_;
    my $offset = $master->offset;
    return wait_for { $self->offset >= $offset } 20,
        "$self->{name} to follow";
}

# of the replication; 0: of a replica without a link
sub offset {
    my ($self) = @_;
    my $info = $self->cmd('INFO', 'replication');
    return 0 if $info =~ /^master_link_status:(?!up)/m;
    my ($offset) = $info =~ /^slave_repl_offset:(\d+)/m;
    ($offset) = $info =~ /^master_repl_offset:(\d+)/m unless defined $offset;
    return $offset;
}

# Loses all data and connections.
sub empty {
    my ($self) = @_;
    return $self->kill->start;
}

sub freeze {
    my ($self) = @_;
    $self->{frozen} = 1;
    $self->{process}->signal('STOP');
    return $self;
}

sub thaw {
    my ($self) = @_;
    $self->{frozen} = 0;
    $self->{process}->signal('CONT');
    return $self;
}

sub stall {
    my ($when, $act) = @_;
    return $act->() if ($ENV{DSEM_STALL} // '') ne $when;
    my @pids = map { $_->pid } grep { !$_->{frozen} && $_->running } @all;
    CORE::kill 'STOP', @pids;
    my $value = $act->();
    my $end = now + STALL;
    wait_for { now > $end };
    CORE::kill 'CONT', @pids;
    return $value;
}

# Closes every connection but the caller's.
sub client_kill {
    my ($self) = @_;
    return $self->cmd(qw(CLIENT KILL TYPE normal SKIPME yes))
        + $self->cmd(qw(CLIENT KILL TYPE pubsub SKIPME yes));
}

# Commands executed since the start, by name, with those inside scripts.
sub calls {
    my ($self) = @_;
    my $info = $self->cmd('INFO', 'commandstats');
    return { $info =~ /^cmdstat_([^:]+):calls=(\d+)/mg };
}

# Waits for $n messages; each heartbeat of a worker publishes one.
sub beats {
    my ($self, $n, $what, $timeout) = @_;
    my $end = ($self->calls->{publish} // 0) + $n;
    return wait_for { ($self->calls->{publish} // 0) >= $end } $timeout // 15,
        $what;
}

# Waits for $n sessions, and then for a heartbeat of each: every worker knows
# how many there are. The same of other servers, meanwhile.
sub all_beat {
    my ($self, $n, @others) = @_;
    my @state = map { Dsem::State->new($_) } $self, @others;
    wait_for { !grep { $_->session_count != $n } @state } 15, "$n sessions";
    my @before = map { $_->lease_ends } @state;
    wait_for {
        for my $i (0 .. $#state) {
            my ($before, $ends) = ($before[$i], $state[$i]->lease_ends);
            return 0 if grep { ($ends->{$_} // 0) <= $before->{$_} }
                keys %$before;
        }
        1;
    } 15, 'a heartbeat of each session';
    $_->written for $self, @others;
    return 1;
}

# Nothing is granted yet, because a lost state is being declared again.
sub recovering {
    my ($self) = @_;
    return Dsem::State->new($self)->recovering;
}

1;
