package Dsem::Cluster;

# A Redis Cluster: three masters, each with one replica unless told otherwise.
# For the rest of the harness it is one Redis, whose commands go to the master
# that has one shard, that of the semaphore "api" unless told otherwise; its
# address is that of all nodes.
#
# No node takes another one for dead, unless the test sets a shorter timeout: a
# test that kills a master promotes its replica itself (take_over), and a busy
# machine does not.
#
#   my $cluster = Dsem::Cluster->new($t, replicas => 0);
#   $cluster->at('other')           # the same, with the shard of that name
#   $cluster->owner                 # Dsem::Redis: the master of the slot
#   $cluster->replica               # one of its replicas, or of a master's
#   $cluster->nodes                 # all of them, masters first
#   $cluster->failover              # planned, returns the new master
#   $cluster->take_over($replica)   # its master is dead
#   $cluster->move($to)             # moves the slot with its keys
#   $cluster->start($master)        # that was killed; sooner than by itself
#   $cluster->meet                  # all nodes know all slots
#
# Called by: tests of a Cluster.

use strict;
use warnings;

use Carp qw(croak);

use Dsem::Clock;
use Dsem::Redis;
use Dsem::State;
use Dsem::Wait qw(now wait_for);

use constant SLOTS => 16384;

# s; more than masters wait
use constant DELAY => 3;

# args => [...]: of each redis-server; timeout: of a node, in ms
sub new {
    my ($class, $t, %opt) = @_;
    my $self = bless { masters => 3, replicas => 1, args => [], name => 'api',
        timeout => 60_000, t => $t, %opt, node => [] }, $class;
    my $n = $self->{masters} * (1 + $self->{replicas});
    my @bus = @{ $self->{bus} } = map { $t->free_port } 1 .. $n;
    for my $i (0 .. $n - 1) {
        push @{ $self->{node} }, Dsem::Redis->new($t, "cluster$i", later => 1,
            args => [qw(--cluster-enabled yes --repl-diskless-sync-delay 0
                --repl-ping-replica-period 1 --cluster-config-file nodes.conf
                --cluster-node-timeout), $self->{timeout}, '--cluster-port',
                $bus[$i], @{ $self->{args} }]);
    }
    $self->_launch($self->nodes, sub { $self->_join });
    push @{ $t->{redis} }, $self;
    return $self;
}

# A master that was stopped. The Cluster is whole again.
sub start {
    my ($self, $node) = @_;
    return $self->_launch($node, sub {
        # it has connected to others, and looked at its own state
        wait_for { $node->cmd(qw(CLUSTER INFO)) =~ /messages_sent:[1-9]/ } 20,
            $node->name . ' to begin';
    });
}

# Masters grant nothing for two seconds after their start, by their clock: it is
# moved on when they have begun.
sub _launch {
    my ($self, @node) = @_;
    my $begun = pop @node;
    my $clock = Dsem::Clock->new($self->{t}, name => "clock-$node[0]{name}");
    local $ENV{LD_PRELOAD} = $clock->{library};
    local $ENV{DSEM_CLOCK} = $clock->{file};
    $clock->step(-DELAY);
    $_->launch for @node;
    $_->ready for @node;
    $begun->();
    $clock->step(DELAY);
    return $self->whole;
}

# name => ...: the semaphore whose shard it stands for
sub at {
    my ($self, $name) = @_;
    return bless { %$self, name => $name, slot => undef, last => undef },
        ref $self;
}

sub shard { Dsem::State::shard_of($_[0]{name}) }
sub nodes { @{ $_[0]{node} } }
sub address { join ' ', map { $_->address } $_[0]->nodes }

sub _join {
    my ($self) = @_;
    my @node = $self->nodes;
    my @masters = @node[0 .. $self->{masters} - 1];
    for my $i (0 .. $#masters) {
        my ($from, $to) = map { int(SLOTS * $_ / @masters) } $i, $i + 1;
        $masters[$i]->cmd(qw(CLUSTER ADDSLOTSRANGE), $from, $to - 1);
        $masters[$i]->cmd(qw(CLUSTER SET-CONFIG-EPOCH), $i + 1);
    }
    $self->meet;
    for my $i (@masters .. $#node) {
        $node[$i]->cmd(qw(CLUSTER REPLICATE), id($masters[$i % @masters]));
    }
}

# Each node knows the others and their slots: a message to meet tells them, too,
# sooner than the next ping.
sub meet {
    my ($self) = @_;
    my @node = $self->nodes;
    wait_for {
        for my $i (0 .. $#node) {
            my @to = (split(/:/, $node[$i]->address), $self->{bus}[$i]);
            $_->cmd(qw(CLUSTER MEET), @to) for grep { $_ != $node[$i] } @node;
        }
        @node == grep { $self->_knows_all($_) } @node;
    } 20, 'the nodes to meet';
    return $self;
}

sub _knows_all {
    my ($self, $node) = @_;
    return $self->nodes == grep({ !/handshake/ } lines($node))
        && $node->cmd(qw(CLUSTER INFO)) =~ /slots_assigned:${\ SLOTS}\b/;
}

# All nodes are part of it and connected to each other, and every replica has the
# data of its master.
sub whole {
    my ($self) = @_;
    my @there = grep { $_->running && !$_->{frozen} } $self->nodes;
    my $ports = join '|', map { $_->port } @there;
    for my $node (@there) {
        wait_for {
            $node->cmd(qw(CLUSTER INFO)) =~ /cluster_state:ok/
                && @there == grep({ /:(?:$ports)\@.* connected\b/ }
                    lines($node))
                && $node->cmd('INFO', 'replication')
                    =~ /role:master|master_link_status:up/
        } 20, $node->name . ' in the cluster';
    }
    return $self;
}

sub id { $_[0]->cmd(qw(CLUSTER MYID)) }
sub lines { split /\n/, $_[0]->cmd(qw(CLUSTER NODES)) }

# The line of a node about itself.
sub myself {
    my ($node) = @_;
    my ($line) = grep { /\bmyself\b/ } lines($node);
    return $line // '';
}

sub slot {
    my ($self) = @_;
    return $self->{slot} //= $self->{node}[0]->cmd(qw(CLUSTER KEYSLOT),
        Dsem::State->new($self)->key);
}

# The epoch under which a node has the slot, as it says itself; 0: it has not.
sub owns {
    my ($self, $node) = @_;
    my (undef, undef, $flags, undef, undef, undef, $epoch, undef, @ranges)
        = split ' ', eval { myself($node) } // '';
    return 0 unless ($flags // '') =~ /master/;
    my ($has) = grep {
        my ($from, $to) = /^(\d+)(?:-(\d+))?$/;
        defined $from && $from <= $self->slot && $self->slot <= ($to // $from);
    } @ranges;
    return $has ? $epoch : 0;
}

# An old one may not know yet that it is replaced.
sub owner {
    my ($self, $timeout) = @_;
    return wait_for {
        my %epoch = map { $_ => $self->owns($_) }
            grep { $_->running && !$_->{frozen} } $self->nodes;
        my ($owner) = sort { $epoch{$b} <=> $epoch{$a} }
            grep { $epoch{$_} } $self->nodes;
        $owner;
    } $timeout // 20, 'a master of the slot';
}

sub replica {
    my ($self, $master) = @_;
    my $id = id($master // $self->owner);
    my ($replica) = grep { $_->running && !$_->{frozen}
        && myself($_) =~ /slave \Q$id\E/ } $self->nodes;
    return $replica // croak 'no replica';
}

# Planned: the replica of the slot's master takes its place. Redis gives it up
# when that took five seconds.
sub failover {
    my ($self) = @_;
    my $replica = $self->replica;
    my $asked = 0;
    wait_for {
        if (now >= $asked + 6) {
            # an error: it is the master since, or not yet connected to it again
            eval { $replica->cmd(qw(CLUSTER FAILOVER)); $asked = now };
        }
        $self->owns($replica);
    } 30, 'the failover';
    return $replica;
}

# Without its master, of any slots, and without asking the others.
sub take_over {
    my ($self, $replica) = @_;
    $replica->cmd(qw(CLUSTER FAILOVER TAKEOVER));
    wait_for { myself($replica) =~ /master/ } 10, 'the promotion';
    return $replica;
}

# As redis-cli --cluster reshard does. $between is called when one of the keys
# has moved.
sub move {
    my ($self, $to, $between) = @_;
    my ($from, $slot) = ($self->owner, $self->slot);
    $to->cmd(qw(CLUSTER SETSLOT), $slot, 'IMPORTING', id($from));
    $from->cmd(qw(CLUSTER SETSLOT), $slot, 'MIGRATING', id($to));
    my $n = 1;
    while (my @keys = @{ $from->cmd(qw(CLUSTER GETKEYSINSLOT), $slot, $n) }) {
        $from->cmd('MIGRATE', split(/:/, $to->address), '', 0, 5000, 'KEYS',
            @keys);
        $between->() if $between;
        ($between, $n) = (undef, 10);
    }
    $_->cmd(qw(CLUSTER SETSLOT), $slot, 'NODE', id($to)) for $to, $from;
    return $to;
}

###########################################################################
# as one Redis

sub running { scalar grep { $_->running } $_[0]->nodes }
sub written { $_->written for $_[0]->nodes }
sub client { $_[0]->owner->client }

# Of all masters.
sub clients {
    my ($self) = @_;
    return map { $_->client } grep { $_->running && !$_->{frozen}
        && myself($_) =~ /master/ } $self->nodes;
}

sub cmd {
    my ($self, @args) = @_;
    return $self->_at_owner(sub { $_[0]->cmd(@args) });
}

# The last owner; another one where it is that no more.
sub _at_owner {
    my ($self, $ask) = @_;
    my $last = $self->{last} //= $self->owner;
    my $reply = eval { $ask->($last) };
    return $reply unless $@;
    die $@ if $last->running && !$last->{frozen} && $@ !~ /MOVED/;
    return $ask->($self->{last} = $self->owner);
}

sub thaw {
    my ($self) = @_;
    $_->thaw for grep { $_->{frozen} } $self->nodes;
    return $self;
}

1;
