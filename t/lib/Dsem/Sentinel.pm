package Dsem::Sentinel;

# A Sentinel set: one master, replicas, and sentinels that watch them. All are
# real processes on ports of this test.
#
#   my $set = $t->sentinel(password => 'a', sentinel_password => 'b');
#   dsem_redis %%SENTINELS%% mode=sentinel master=%%MASTER%%;
#
# Options: servers (3), sentinels (3), password, sentinel_password, down_after
#   (ms, 500), args (redis-server's, of each server, instead of replicas that
#   resynchronize at once), lines (of a sentinel's configuration, instead of its
#   own; %%MASTER%% is the master's host and port).
# Set: addresses (of the sentinels), name (of the master), master (the server
#   that the sentinels name, a Dsem::Redis), servers, sentinels (the same, each
#   with stop start kill freeze thaw cmd), replicas (all but the master),
#   named($sentinel) (the address that it names), settle: waits until all
#   sentinels name one master with its replicas, failover: a planned one, begun,
#   replaced($old): waits until another server is the master, is named, has a
#   worker, and grants; returns {master => Dsem::Redis, writable, named, found,
#   granting: moments}.
#   watch($name, $address): one more sentinel, which watches a master by another
#   name and never replaces it, name_master($sentinel, $name, $address): it
#   names this one from now on.
#
# Called by: Dsem::Test.

use strict;
use warnings;

use Carp qw(croak);

use Dsem::Redis;
use Dsem::State;
use Dsem::Wait qw(wait_for now);

# ms; short, so that the set is complete soon
use constant { PUBLISH => 200, INFO => 500 };

sub new {
    my ($class, $t, %opt) = @_;
    my $self = bless {
        t => $t, name => 'mymaster', servers => 3, sentinels => 3,
        down_after => 500, args => ['--repl-diskless-sync-delay', 0], %opt,
    }, $class;
    $self->{of} = [ $self->start_servers ];
    $self->{by} = [ map {
        $self->launch_sentinel("sentinel$_", $self->{name},
            $self->{of}[0]->address, 2)
    } 1 .. $self->{sentinels} ];
    $_->ready for $self->servers, $self->sentinels;
    return $self->settle;
}

sub name { $_[0]{name} }
sub servers { @{ $_[0]{of} } }
sub sentinels { @{ $_[0]{by} } }
sub addresses { join ' ', map { $_->address } $_[0]->sentinels }

sub start_servers {
    my ($self) = @_;
    my @args = @{ $self->{args} };
    push @args, '--requirepass', $self->{password},
        '--masterauth', $self->{password} if defined $self->{password};
    my $start = sub {
        $self->{t}->redis(args => [@args, @_], reconnect => 1,
            password => $self->{password}, later => 1)->launch;
    };
    # a replica that does not reach it waits for a second
    my $master = $start->()->ready;
    return $master, map {
        $start->('--replicaof', split /:/, $master->address)
    } 2 .. $self->{servers};
}

sub launch_sentinel {
    my ($self, $process, $name, $address, $quorum) = @_;
    my ($host, $port) = split /:/, $address;
    my $path = $self->{t}->dir . "/$process.conf";
    my @line = (
        "sentinel monitor $name $host $port $quorum",
        "sentinel down-after-milliseconds $name $self->{down_after}",
        "sentinel failover-timeout $name 10000",
    );
    push @line, "sentinel auth-pass $name $self->{password}"
        if defined $self->{password};
    push @line, map { "$_ $self->{sentinel_password}" }
        'requirepass', 'sentinel sentinel-pass'
        if defined $self->{sentinel_password};
    @line = map { s/%%MASTER%%/$host $port/r } @{ $self->{lines} }
        if $self->{lines};
    open my $fh, '>', $path or croak "$path: $!";
    print $fh map { "$_\n" } @line;
    close $fh;
    return Dsem::Redis->new($self->{t}, $process, conf => $path, later => 1,
        args => ['--sentinel'], password => $self->{sentinel_password})
        ->launch;
}

sub start_sentinel {
    my ($self, @args) = @_;
    return $self->launch_sentinel(@args)->ready;
}

# One that names $address as the master $name, whatever happens.
sub watch {
    my ($self, $name, $address) = @_;
    my $n = ++$self->{watching};
    local $self->{down_after} = 3_600_000;
    return $self->start_sentinel("watch$n", $name, $address, 1);
}

sub name_master {
    my ($self, $sentinel, $name, $address) = @_;
    $sentinel->cmd(qw(SENTINEL REMOVE), $name);
    $sentinel->cmd(qw(SENTINEL MONITOR), $name, split(/:/, $address), 1);
    $sentinel->cmd(qw(SENTINEL SET), $name, 'down-after-milliseconds',
        3_600_000);
}

sub pace {
    my ($self, @ms) = @_;
    quicken($_, @ms) for grep { $_->running && !$_->{frozen} }
        $self->sentinels;
}

sub quicken {
    my ($sentinel, $publish, $info) = @_;
    $sentinel->cmd(qw(SENTINEL DEBUG PUBLISH-PERIOD), $publish,
        'INFO-PERIOD', $info);
}

# What a sentinel tells, as a hash.
sub told {
    my ($self, $sentinel) = @_;
    return { @{ $sentinel->cmd(qw(SENTINEL MASTER), $self->{name}) } };
}

sub named {
    my ($self, $sentinel) = @_;
    return join ':', @{ $sentinel->cmd(qw(SENTINEL GET-MASTER-ADDR-BY-NAME),
        $self->{name}) };
}

sub settle {
    my ($self, $timeout) = @_;
    $self->pace(PUBLISH, INFO);
    wait_for { $self->settled } $timeout // 60, 'a complete Sentinel set';
    # as it is by default
    $self->pace(2000, 10_000);
    return $self;
}

sub settled {
    my ($self) = @_;
    my @running = grep { $_->running && !$_->{frozen} } $self->sentinels
        or return 1;
    my %named = map { $self->named($_) => 1 } @running;
    return if keys %named != 1;
    for (@running) {
        my $told = $self->told($_);
        return if $told->{flags} ne 'master'
            || $told->{'num-slaves'} < $self->{servers} - 1
            || $told->{'num-other-sentinels'} < $self->{sentinels} - 1;
    }
    my $link = 'master_link_status:up';
    return !grep { index($_->cmd('INFO', 'replication'), $link) < 0 }
        grep { $_->running } $self->replicas;
}

# As the first running sentinel names it.
sub master {
    my ($self) = @_;
    my ($sentinel) = grep { $_->running && !$_->{frozen} } $self->sentinels
        or return $self->{of}[0];
    my $address = $self->named($sentinel);
    my ($master) = grep { $_->address eq $address } $self->servers;
    return $master // croak "no server at $address";
}

sub replicas {
    my ($self) = @_;
    my $master = $self->master;
    return grep { $_ != $master } $self->servers;
}

sub failover {
    my ($self) = @_;
    my ($sentinel) = grep { $_->running && !$_->{frozen} } $self->sentinels;
    wait_for {
        eval { $sentinel->cmd(qw(SENTINEL FAILOVER), $self->{name}) }
    } 30, 'a failover to begin';
    return $self;
}

sub replaced {
    my ($self, $old) = @_;
    my $new = wait_for {
        (grep { $_ != $old && $_->running
            && $_->cmd('INFO', 'replication') =~ /^role:master/m }
            $self->servers)[0];
    } 60, 'a promotion';
    my %at = (master => $new, writable => now);
    ($old->{replaced}, $new->{replaced}) = (1, 0);
    wait_for { grep { $self->named($_) eq $new->address } grep { $_->running }
        $self->sentinels } 60, 'a sentinel that names it';
    $at{named} = now;
    my ($id) = $new->cmd('INFO', 'server') =~ /^run_id:(\w+)/m;
    my $state = Dsem::State->new($new);
    # a hello marks the state as that of this server
    wait_for { ($state->shard('run') // '') eq $id } 60, 'a worker there';
    $at{found} = now;
    wait_for { !$state->recovering } 60, 'the end of the recovery';
    $at{granting} = now;
    return \%at;
}

1;
