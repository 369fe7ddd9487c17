package Soak::Faults;

# Carries out the faults of a schedule, one after the other, and records each
# step in faults.log: what was done, from when to when, and to which processes.
# A kind has a method begin_<kind>, and end_<kind> if it lasts.
#
# Called by: soak.pl.

use strict;
use warnings;

use Cpanel::JSON::XS ();
use Time::HiRes qw(sleep);

use Dsem::Cluster;
use Dsem::State;
use Dsem::Wait qw(wait_for poll now);

use Soak::Fleet;
use Soak::Schedule;

my $json = Cpanel::JSON::XS->new->canonical;

# steps that are the same as others
my %SAME = (
    (map { $_ => 'start_node' } qw(end_kill_node end_stop_node end_quit_node)),
    begin_suspend_worker => 'begin_freeze_worker',
    end_suspend_worker => 'end_freeze_worker',
    begin_link_lost => 'begin_link_freeze',
    end_link_lost => 'end_link_freeze',
);

sub new {
    my ($class, $fleet) = @_;
    return bless { fleet => $fleet }, $class;
}

# Runs the faults of a phase. Times count from now; a quiet that takes longer
# than planned moves all later faults.
sub run {
    my ($self, $progress, @faults) = @_;
    my $base = now;
    my @steps = sort { $a->[0] <=> $b->[0] || $a->[2]{id} <=> $b->[2]{id} }
        map { ([$_->{at}, 'begin', $_],
            $_->{for} ? [$_->{at} + $_->{for}, 'end', $_] : ()) } @faults;
    for (@steps) {
        my ($at, $step, $fault) = @$_;
        my $wait = $base + $at - now;
        sleep $wait if $wait > 0;
        $progress->($fault, $step);
        if ($fault->{kind} eq 'quiet') {
            $self->{fleet}->quiet;
            my $late = now - $base - $at - Soak::Schedule::QUIET;
            $base += $late if $late > 0;
            $self->{fleet}->resume unless $fault == $faults[-1];
        } else {
            $self->step($step, $fault);
        }
    }
}

sub step {
    my ($self, $step, $fault) = @_;
    my $name = "${step}_$fault->{kind}";
    my $act = $self->can($SAME{$name} // $name) or die "no $name";
    my $began = now;
    my %more = eval { $act->($self, $fault) };
    my $error = $@ =~ s/\s+/ /gr;
    $self->{fleet}->record('faults', %$fault, step => $step,
        began => $began, %more, $error ? (failed => $error) : ());
}

sub node {
    my ($self, $fault) = @_;
    return ($self->{fleet}->nodes)[ $fault->{node} - 1 ];
}

# The process behind the semaphore of a fault; any, where it names none.
sub server {
    my ($self, $fault) = @_;
    my $server = $self->{fleet}->server($fault->{sem} // 'fifty');
    return $server->can('owner') ? $server->owner : $server;
}

###########################################################################
# nodes and workers

sub begin_reload {
    my ($self, $fault) = @_;
    $self->node($fault)->reload;
    return ();
}

sub begin_reload_all {
    my ($self) = @_;
    $_->reload for $self->{fleet}->nodes;
    return ();
}

sub begin_upgrade {
    my ($self, $fault) = @_;
    my $node = $self->node($fault)->begin_upgrade;
    $self->{upgraded}{ $node->name } = 1;
    return ();
}

sub end_upgrade {
    my ($self, $fault) = @_;
    my $node = $self->node($fault)->end_upgrade;
    delete $self->{upgraded}{ $node->name };
    return ();
}

sub worker {
    my ($self, $fault) = @_;
    my @workers = $self->node($fault)->workers;
    return $workers[ $fault->{worker} % @workers ];
}

sub begin_kill_worker {
    my ($self, $fault) = @_;
    my $node = $self->node($fault);
    my $pid = $node->kill_worker($self->worker($fault));
    wait_for { !grep { $_ == $pid } $node->workers } 15, 'a worker to die';
    wait_for { $node->workers >= 2 } 15, 'its successor';
    return (pid => $pid);
}

sub begin_kill_node { $_[0]->node($_[1])->kill; return () }
sub begin_stop_node { $_[0]->node($_[1])->stop; return () }
sub begin_quit_node { $_[0]->node($_[1])->signal('QUIT'); return () }

sub start_node {
    my ($self, $fault) = @_;
    my $node = $self->node($fault);
    wait_for { !$node->alive } 30, 'a node to end';
    $node->start;
    return ();
}

sub begin_freeze_worker {
    my ($self, $fault) = @_;
    $fault->{pid} = $self->node($fault)->freeze($self->worker($fault));
    return ();
}

sub end_freeze_worker {
    my ($self, $fault) = @_;
    $self->node($fault)->thaw($fault->{pid});
    return ();
}

###########################################################################
# orders through the API

# Any node may carry out an order; one whose worker is stopped, or that cannot
# reach Redis, does not.
sub order {
    my ($self, $method, $path, $body) = @_;
    my @tried;
    my $end = now + 20;
    while (now < $end) {
        # the first process of one that is upgraded may have ended
        for my $node (grep { $_->alive || $self->{upgraded}{ $_->name } }
            $self->{fleet}->nodes)
        {
            my $answer = eval {
                $node->begin("/dsem/$path", -method => $method,
                    'Content-Type' => 'application/json',
                    -body => $json->encode($body))->wait(2);
            };
            my $status = $answer ? $answer->status : 0;
            return (asked => $node->name, status => $status)
                if $status =~ /^2/ || $status == 404;
            push @tried, $node->name . " $status";
        }
        sleep 0.1;
    }
    die "$method $path: @tried\n";
}

sub begin_limit {
    my ($self, $fault) = @_;
    my $limit = $Soak::Fleet::SEMAPHORE{ $fault->{sem} }{limit};
    my $new = int($limit * $fault->{value} / 100 + 0.5) || 1;
    $fault->{limit} = $new;
    return $self->order(PATCH => "semaphores/$fault->{sem}",
        { limit => $new });
}

sub end_limit {
    my ($self, $fault) = @_;
    return $self->order(PATCH => "semaphores/$fault->{sem}",
        { limit => undef });
}

sub begin_pause {
    my ($self, $fault) = @_;
    return $self->order(PATCH => "semaphores/$fault->{sem}",
        { paused => Cpanel::JSON::XS::true });
}

sub end_pause {
    my ($self, $fault) = @_;
    return $self->order(PATCH => "semaphores/$fault->{sem}",
        { paused => Cpanel::JSON::XS::false });
}

sub begin_remove_session {
    my ($self, $fault) = @_;
    my $name = $self->node($fault)->name;
    my $state = Dsem::State->new($self->{fleet}->server('fifty'));
    my ($session) = grep { /^$name:$fault->{worker}:/ } $state->sessions;
    return (skipped => 'no such session') unless $session;
    return (session => $session, $self->order(DELETE => "sessions/$session",
        { force => Cpanel::JSON::XS::true }));
}

###########################################################################
# clients

# Each request of the busy keys has another key.
sub begin_random_keys { $_[0]{fleet}->random_keys(1); return () }

# tags: keys that Redis has of the semaphore meanwhile. Only a single server is
# asked, which answers, or is known not to.
sub end_random_keys {
    my ($self) = @_;
    my $redis = $self->redis;
    my $state = Dsem::State->new($redis);
    my $tags = $self->{fleet}{phase} ne 'single' || $redis->{frozen} ? undef
        : eval { $state->cmd('ZCARD', $state->fair_key('fair')) };
    $self->{fleet}->random_keys(0);
    return defined $tags ? (tags => $tags) : ();
}

###########################################################################
# a server

sub begin_client_kill { $_[0]->server($_[1])->client_kill; return () }

sub begin_script_flush {
    my ($self, $fault) = @_;
    $self->server($fault)->cmd(qw(SCRIPT FLUSH));
    return ();
}

sub begin_flushall { $_[0]->server($_[1])->cmd('FLUSHALL'); return () }

sub begin_out_of_memory {
    my ($self, $fault) = @_;
    $fault->{server} = $self->server($fault);
    $fault->{server}->cmd(qw(CONFIG SET maxmemory 1));
    return (server => $fault->{server}->name);
}

sub end_out_of_memory {
    my ($self, $fault) = @_;
    my $server = delete $fault->{server};
    $server->cmd(qw(CONFIG SET maxmemory 0));
    return ();
}

###########################################################################
# a single server, and the connections to it

sub redis { $_[0]{fleet}{redis}[0] }
sub link { $_[0]{fleet}{link}[ $_[1]{node} - 1 ] }

sub begin_link_cut { $_[0]->link($_[1])->cut; return () }
sub begin_link_reset { $_[0]->link($_[1])->reset; return () }

sub begin_link_freeze {
    my ($self, $fault) = @_;
    $self->link($fault)->freeze($fault->{dir});
    return ();
}

sub end_link_freeze { $_[0]->link($_[1])->thaw; return () }

sub begin_link_delay {
    my ($self, $fault) = @_;
    $self->link($fault)->delay($fault->{delay}, $fault->{dir});
    return ();
}

sub end_link_delay { $_[0]->link($_[1])->delay(0); return () }

sub begin_link_swallow { $_[0]->link($_[1])->swallow(every => 2); return () }

sub end_link_swallow {
    my ($self, $fault) = @_;
    my $link = $self->link($fault);
    $link->swallow;
    return (swallowed => $link->swallowed);
}

sub begin_link_slice { $_[0]->link($_[1])->slice(7); return () }
sub end_link_slice { $_[0]->link($_[1])->slice(0); return () }

sub begin_link_refuse {
    my ($self, $fault) = @_;
    my $link = $self->link($fault);
    $link->refuse;
    $link->reset;
    return ();
}

sub end_link_refuse { $_[0]->link($_[1])->refuse(0); return () }

sub begin_redis_restart {
    my ($self) = @_;
    my $redis = $self->redis->kill;
    $self->{fleet}->with_clock(sub { $redis->start });
    return ();
}

sub begin_redis_down { $_[0]->redis->kill; return () }

sub end_redis_down {
    my ($self) = @_;
    $self->{fleet}->with_clock(sub { $self->redis->start });
    return ();
}

sub begin_redis_freeze { $_[0]->redis->freeze; return () }
sub end_redis_freeze { $_[0]->redis->thaw; return () }

sub begin_client_pause {
    my ($self, $fault) = @_;
    $self->redis->cmd(qw(CLIENT PAUSE), int($fault->{for} * 1000), 'ALL');
    return ();
}

sub end_client_pause { $_[0]->redis->cmd('PING'); return () }

sub begin_clock_step {
    my ($self, $fault) = @_;
    $self->{fleet}{clock}->step($fault->{seconds});
    return ();
}

###########################################################################
# Sentinel

sub set { $_[0]{fleet}{sentinel} }

sub begin_failover {
    my ($self, $fault) = @_;
    $self->{old} = $self->set->master;
    $self->set->failover;
    return (server => $self->{old}->name);
}

sub begin_master_kill {
    my ($self) = @_;
    $self->{old} = $self->set->master->kill;
    return (server => $self->{old}->name);
}

sub begin_master_freeze {
    my ($self) = @_;
    $self->{old} = $self->set->master->freeze;
    return (server => $self->{old}->name);
}

# Waits until the sentinels name another master, which is one. A server that was
# killed before may be back as a master that no sentinel names. Sentinels that
# stood still for two seconds promote none for half a minute ("tilt").
sub end_failover {
    my ($self, $fault) = @_;
    my $old = $self->{old};
    my $new = poll(sub {
        my $named = eval { $self->set->master } // return;
        return $named != $old && $named->running
            && $named->cmd('INFO', 'replication') =~ /^role:master/m && $named;
    }, 75);
    # a planned one that the sentinels gave up
    return (skipped => 'not promoted') if !$new && $fault->{kind} eq 'failover';
    die "no new master\n" unless $new;
    ($old->{replaced}, $new->{replaced}) = (1, 0);
    return (master => $new->name);
}

# The old master comes back, and is a replica as soon as the sentinels see it.
sub end_master_kill {
    my ($self, $fault) = @_;
    my @at = eval { $self->end_failover($fault) };
    my $error = $@;
    $self->{old}->start;
    die $error if $error;
    return @at;
}

sub end_master_freeze {
    my ($self, $fault) = @_;
    my @at = eval { $self->end_failover($fault) };
    my $error = $@;
    $self->{old}->thaw;
    die $error if $error;
    return @at;
}

sub sentinel { ($_[0]->set->sentinels)[ $_[1]{sentinel} - 1 ] }
sub begin_sentinel_kill { $_[0]->sentinel($_[1])->kill; return () }
sub end_sentinel_kill { $_[0]->sentinel($_[1])->start; return () }

sub begin_replica_kill {
    my ($self) = @_;
    ($self->{replica}) = $self->set->replicas;
    $self->{replica}->kill;
    return (server => $self->{replica}->name);
}

sub end_replica_kill { $_[0]{replica}->start; return () }

###########################################################################
# Cluster

sub shard { $_[0]{fleet}{shard}{ $_[1]{sem} } }

sub begin_shard_failover {
    my ($self, $fault) = @_;
    return (master => $self->shard($fault)->failover->name);
}

sub end_shard_failover { $_[0]{fleet}{cluster}->whole; return () }

sub begin_shard_kill {
    my ($self, $fault) = @_;
    $self->{old} = $self->shard($fault)->owner->kill;
    return (server => $self->{old}->name);
}

sub begin_shard_freeze {
    my ($self, $fault) = @_;
    $self->{old} = $self->shard($fault)->owner->freeze;
    return (server => $self->{old}->name);
}

sub end_shard_kill {
    my ($self, $fault) = @_;
    my $new = $self->shard($fault)->owner;
    $self->{old}->start;
    $self->{fleet}{cluster}->whole;
    return (master => $new->name);
}

sub end_shard_freeze {
    my ($self, $fault) = @_;
    my $new = $self->shard($fault)->owner;
    $self->{old}->thaw;
    $self->{fleet}{cluster}->whole;
    return (master => $new->name);
}

# With all its keys, to another master.
sub begin_slot_move {
    my ($self, $fault) = @_;
    my $shard = $self->shard($fault);
    my $from = $shard->owner;
    my ($to) = grep { $_ != $from && $_->running
        && Dsem::Cluster::myself($_) =~ /\bmaster\b.*connected \d/ }
        $shard->nodes;
    die "no other master\n" unless $to;
    $shard->move($to);
    return (master => $to->name);
}

sub end_slot_move { $_[0]{fleet}{cluster}->whole; return () }

1;
