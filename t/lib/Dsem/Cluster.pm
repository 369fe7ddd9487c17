package Dsem::Cluster;

# A Redis Cluster: three masters, each with one replica unless told otherwise.
# For the rest of the harness it is one Redis, whose commands go to the master
# that has one shard, that of the semaphore "api" unless told otherwise; its
# address is that of all nodes.
#
#   my $cluster = Dsem::Cluster->new($t, replicas => 0);
#   $cluster->at('other')           # the same, with the shard of that name
#   $cluster->owner                 # Dsem::Redis: the master of the slot
#   $cluster->replica               # one of its replicas
#   $cluster->nodes                 # all of them, masters first
#   $cluster->failover              # planned, returns the new master
#   $cluster->move($to)             # moves the slot with its keys
#
# Called by: tests of a Cluster.

use strict;
use warnings;

use Carp qw(croak);

use Dsem::Redis;
use Dsem::State;
use Dsem::Wait qw(wait_for);

use constant SLOTS => 16384;

# args => [...]: of each redis-server
sub new {
    my ($class, $t, %opt) = @_;
    my $self = bless { masters => 3, replicas => 1, args => [], name => 'api',
        t => $t, %opt, node => [] }, $class;
    my $n = $self->{masters} * (1 + $self->{replicas});
    my @bus = map { $t->free_port } 1 .. $n;
    for my $i (0 .. $n - 1) {
        push @{ $self->{node} }, Dsem::Redis->new($t, "cluster$i",
            args => [qw(--cluster-enabled yes --cluster-node-timeout 1000
                --repl-diskless-sync-delay 0 --repl-ping-replica-period 1
                --cluster-config-file nodes.conf --cluster-port), $bus[$i],
                @{ $self->{args} }]);
    }
    $self->_join(@bus);
    push @{ $t->{redis} }, $self;
    return $self;
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
    my ($self, @bus) = @_;
    my @node = $self->nodes;
    my @masters = @node[0 .. $self->{masters} - 1];
    for my $i (0 .. $#masters) {
        my ($from, $to) = map { int(SLOTS * $_ / @masters) } $i, $i + 1;
        $masters[$i]->cmd(qw(CLUSTER ADDSLOTSRANGE), $from, $to - 1);
        $masters[$i]->cmd(qw(CLUSTER SET-CONFIG-EPOCH), $i + 1);
    }
    $node[0]->cmd(qw(CLUSTER MEET), split(/:/, $node[$_]->address), $bus[$_])
        for 1 .. $#node;
    for my $node (@node) {
        wait_for { @node == grep { !/handshake/ } lines($node) } 20,
            'the nodes to meet';
    }
    for my $i (@masters .. $#node) {
        $node[$i]->cmd(qw(CLUSTER REPLICATE), id($masters[$i % @masters]));
    }
    $self->whole;
}

# All nodes are part of it, and every replica has the data of its master.
sub whole {
    my ($self) = @_;
    for my $node (grep { $_->running && !$_->{frozen} } $self->nodes) {
        wait_for {
            $node->cmd(qw(CLUSTER INFO)) =~ /cluster_state:ok/
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
    my ($self) = @_;
    my $id = id($self->owner);
    my ($replica) = grep { $_->running && !$_->{frozen}
        && myself($_) =~ /slave \Q$id\E/ } $self->nodes;
    return $replica // croak 'no replica';
}

# Planned: the replica of the slot's master takes its place.
sub failover {
    my ($self) = @_;
    my $replica = $self->replica;
    $replica->cmd(qw(CLUSTER FAILOVER));
    wait_for { $self->owns($replica) } 10, 'the failover';
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
