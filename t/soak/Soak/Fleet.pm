package Soak::Fleet;

# The fleet of one phase: three nodes with two workers each, a backend, clients,
# and Redis in one of three forms. All that the checker needs is in files of
# its directory: conf.json, clients.log, backend.log, faults.log, state.log and
# the logs of nginx.
#
# Called by: soak.pl. Soak::Faults acts on it.

use strict;
use warnings;

use Carp qw(croak);
use Cpanel::JSON::XS ();
use File::Path qw(make_path remove_tree);
use IO::Handle;
use Time::HiRes ();

use Dsem::Clock;
use Dsem::Cluster;
use Dsem::Control;
use Dsem::Process;
use Dsem::State;
use Dsem::Teardown;
use Dsem::Test ();
use Dsem::Wait qw(wait_for now poll time_factor);

# for the parts of a test: redis, sentinel, upstream, proxy, node
use parent -norequire, 'Dsem::Test';

use constant NODES => 3;

# s
use constant { LEASE => 3, REUSE => 1 };

# sem => limit, queue, timeout (s); number of clients; at the rate 1 the mean
# time that the backend takes, and their mean pause (ms). With limit=auto: the
# limit is the upper bound, min the lower one; knee: of the backend. With fair:
# the keys with their shares; within: a key that always needs less than its
# share. With servers: a pool of so many, each has the limit
our %SEMAPHORE = (
    one => { limit => 1, queue => 15, timeout => 2, service => 4,
        pause => 60, clients => 14 },
    two => { limit => 2, queue => 10, timeout => 3, service => 8,
        pause => 60, clients => 20 },
    fifty => { limit => 50, queue => 60, timeout => 4, service => 75,
        pause => 40, clients => 90 },
    local => { limit => 12, queue => 40, timeout => 3, service => 20,
        pause => 30, clients => 26 },
    auto => { limit => 20, min => 3, knee => 8, queue => 20, timeout => 3,
        service => 50, pause => 40, clients => 28 },
    fair => { limit => 4, queue => 34, timeout => 4, keys => {
        bulk => { share => 1, service => 40, pause => 150, clients => 24 },
        gold => { share => 3, service => 40, pause => 60, clients => 16 },
        slow => { share => 1, service => 120, pause => 50, clients => 5 },
        (map { ("within$_->[0]" => { share => 1, within => 1,
            clients => $_->[0], service => $_->[1], pause => $_->[2] }) }
            [1, 40, 80], [2, 30, 300], [3, 30, 900], [4, 10, 400],
            [5, 40, 1500]),
    } },
    pool => { limit => 2, servers => 4, queue => 20, timeout => 3,
        service => 50, pause => 60, clients => 26 },
);

my $json = Cpanel::JSON::XS->new->canonical;

sub new {
    my ($class, %opt) = @_;
    my $self = bless {
        lease => LEASE, redis => [], upstreams => [], nodes => [],
        proxies => [], dns => [], loads => [], rate => 1, %opt,
    }, $class;
    remove_tree($self->{dir});
    make_path($self->{dir});
    $self->{log}{$_} = $self->open_log($_) for qw(faults state);
    return $self;
}

sub open_log {
    my ($self, $name) = @_;
    open my $fh, '>', "$self->{dir}/$name.log" or croak "$name.log: $!";
    $fh->autoflush(1);
    return $fh;
}

# A record of one of the logs, with the time.
sub record {
    my ($self, $log, %of) = @_;
    print { $self->{log}{$log} } $json->encode({ t => now, %of }), "\n";
}

sub start {
    my ($self) = @_;
    my $phase = $self->{phase};
    $self->start_metronome;
    my @at = $self->can("start_$phase")->($self);
    my $pool = $SEMAPHORE{pool};
    $self->{backend} = $self->upstream(stream => "$self->{dir}/backend.log",
        ports => 1 + ($pool ? $pool->{servers} : 0));
    my $text = conf($self->servers);
    $self->node("n$_", $text, AT => $at[ ($_ - 1) % @at ]) for 1 .. NODES;
    wait_for { $self->complete } 30, 'all sessions';
    $self->write_conf;
    $self->start_clients;
    return $self;
}

# It shows the checker when the machine stood still.
sub start_metronome {
    my ($self) = @_;
    $self->{metronome} = $ENV{DSEM_METRONOME} and return;
    $self->{metronome} = 'metronome';
    local $ENV{DSEM_METRONOME};
    Dsem::Test::start_metronome("$self->{dir}/metronome");
}

# Those of the pool, in the backend beside the one for all others.
sub servers {
    my ($self) = @_;
    my (undef, @servers) = $self->{backend}->addresses;
    return @servers;
}

sub start_single {
    my ($self) = @_;
    $self->{clock} = Dsem::Clock->new($self);
    my $redis = $self->with_clock(sub { $self->redis });
    $self->{link} = [ map { $self->proxy($redis->address) } 1 .. NODES ];
    return map { $_->address } @{ $self->{link} };
}

# Redis gets its settable clock whenever it is started.
sub with_clock {
    my ($self, $start) = @_;
    local $ENV{LD_PRELOAD} = $self->{clock}{library};
    local $ENV{DSEM_CLOCK} = $self->{clock}{file};
    return $start->();
}

sub start_sentinel {
    my ($self) = @_;
    return $self->sentinel->addresses . ' mode=sentinel master=mymaster';
}

sub start_cluster {
    my ($self) = @_;
    my $cluster = $self->{cluster} = Dsem::Cluster->new($self,
        timeout => 1000);
    for my $sem (keys %SEMAPHORE) {
        $self->{shard}{$sem} = $cluster->at($sem);
        # while no server is stopped
        $self->{shard}{$sem}->slot;
    }
    return $self->{cluster}->address . ' mode=cluster';
}

# The server that has the shard of a semaphore.
sub server {
    my ($self, $sem) = @_;
    return $self->{shard}{$sem} if $self->{cluster};
    return $self->{sentinel} ? $self->{sentinel}->master : $self->{redis}[0];
}

# All workers of all nodes are known to Redis, in every shard.
sub complete {
    my ($self) = @_;
    my $n = 0;
    $n += $_->workers for grep { $_->alive } $self->nodes;
    return !grep {
        my $state = Dsem::State->new($self->server($_));
        $state->session_count < $n || $state->recovering;
    } keys %SEMAPHORE;
}

sub conf {
    my (@servers) = @_;
    my $locations = join '', map { locations($_) } sort keys %SEMAPHORE;
    my $pool = @servers ? pool(@servers) : '';
    return <<'EOF_CONF' =~ s/LOCATIONS/$locations/r =~ s/POOL/$pool/r;
%%GLOBALS%%
worker_processes 2;
events { worker_connections 1024; }
http {
    %%HTTP%%
    error_log %%DIR%%/error.log notice;
    log_format soak '$msec $http_x_nonce $status $dsem_status $dsem_wait_time '
                    '$dsem_queue_position $pid $request_time';
    keepalive_requests 1000;
    dsem_redis %%AT%%;
    dsem_redis_connect_timeout 500ms;
    dsem_redis_timeout 1s;
    dsem_lease 3s;
    dsem_reuse 1s;
    dsem_log_level info;
    dsem_node %%NODE%%;
    map $dsem_name $sem {
        default $dsem_name;
        pool pool@;
    }
    # of a pool it is not that of one server
    map $dsem_name $limit {
        default $dsem_limit;
        pool "";
    }
    POOL
    proxy_set_header X-Sem $sem;
    proxy_set_header X-Weight $arg_w;
    proxy_set_header X-Limit $limit;
    proxy_set_header X-Worker $pid;
    proxy_set_header X-Node %%NODE%%;
    server {
        listen 127.0.0.1:%%PORT%%;
        listen 127.0.0.1:%%PORT2%% http2;
        access_log %%DIR%%/verdicts.log soak;
LOCATIONS
        location /dsem/ { dsem_api write=on; access_log off; }
    }
}
EOF_CONF
}

sub pool {
    my (@servers) = @_;
    my $of = $SEMAPHORE{pool};
    return join ' ', 'upstream pool { zone pool 256k;',
        map({ "server $_;" } @servers),
        "dsem pool limit=$of->{limit}/server queue=$of->{queue} "
            . "timeout=$of->{timeout}s; }";
}

# One for each share of a key; they limit the same semaphore.
sub locations {
    my ($sem) = @_;
    my $of = $SEMAPHORE{$sem};
    return <<"EOF_LOCATION" if $of->{servers};
        location /$sem {
            dsem_on_error reject;
            proxy_pass http://$sem;
        }
EOF_LOCATION
    my $limit = $of->{min} ? "auto min=$of->{min} max=$of->{limit}"
        : $of->{limit};
    my $weight = $sem eq 'fifty' ? ' weight=$arg_w' : '';
    my $error = $sem eq 'local' ? 'local' : 'reject';
    my %fair = map { $_->{share} => " fair=\$arg_k share=$_->{share}" }
        values %{ $of->{keys} // {} };
    %fair = ('' => '') unless %fair;
    return map { <<"EOF_LOCATION" } sort keys %fair;
        location /$sem$_ {
            dsem $sem limit=$limit queue=$of->{queue}
                timeout=$of->{timeout}s$weight$fair{$_};
            dsem_on_error $error;
            proxy_pass http://%%UPSTREAM%%;
        }
EOF_LOCATION
}

sub write_conf {
    my ($self) = @_;
    open my $fh, '>', "$self->{dir}/conf.json" or croak "conf.json: $!";
    my %of = %SEMAPHORE;
    $of{pool} = { %{ $of{pool} }, servers => [ map { /:(\d+)$/ }
        $self->servers ] } if $of{pool};
    print $fh $json->encode({
        phase => $self->{phase}, lease => LEASE, factor => time_factor,
        nodes => NODES, workers => 2, rate => $self->{rate},
        metronome => $self->{metronome}, semaphores => \%of,
        wall => Time::HiRes::time() - now, begin => now,
    });
    close $fh;
}

###########################################################################
# clients

sub start_clients {
    my ($self) = @_;
    my $control = Dsem::Control::listen_on("$self->{dir}/clients");
    my @load = map { $self->load($_) } sort keys %SEMAPHORE;
    $self->{clients_process} = Dsem::Process->spawn(
        name => 'clients', log => "$self->{dir}/clients.out",
        keep => [$control], code => sub {
            require Soak::Clients;
            Soak::Clients::run($control, load => \@load,
                nodes => [ map { [$_->port(1), $_->port(2)] } $self->nodes ],
                log => "$self->{dir}/clients.log", seed => $self->{seed});
        });
    $self->{clients} = Dsem::Control->new("$self->{dir}/clients");
}

# At a lower rate all takes longer: as many requests run and wait.
sub load {
    my ($self, $sem) = @_;
    my $of = $SEMAPHORE{$sem};
    my $keys = $of->{keys} // { '-' => $of };
    return map {
        my $load = $keys->{$_};
        { sem => $sem, key => $_, location => $sem . ($load->{share} // ''),
            clients => $load->{clients}, knee => $of->{knee},
            map { $_ => $load->{$_} / $self->{rate} } qw(service pause) };
    } sort keys %$keys;
}

sub begun { $_[0]{clients}->call('begun') }
sub pause { $_[0]{clients}->call('pause', 1) }
sub resume { $_[0]{clients}->call('pause', 0) }
sub random_keys { $_[0]{clients}->call('random_keys', $_[1]) }

###########################################################################
# quiet: nothing is left

# Waits until the last request has ended and a lease is over, and records what
# is left, and what the processes use.
sub quiet {
    my ($self) = @_;
    my $began = now;
    $self->pause;
    my $idle = poll(sub { !$self->{clients}->call('flying') }, 45);
    # the processes of a reload or an upgrade, and a failover
    poll(sub { eval { $self->complete } }, 30);
    my @left;
    poll(sub { @left = eval { $self->left }; $@ and @left = "$@"; !@left },
        LEASE + 2 + REUSE + 1);
    $self->record('state', what => 'quiet', began => $began,
        flying => $idle ? 0 : $self->{clients}->call('flying'),
        left => \@left, backend => $self->{backend}->now,
        complete => eval { $self->complete } ? 1 : 0, $self->usage);
}

sub left {
    my ($self) = @_;
    my @of = $self->{cluster} // $self->server('one');
    return map { $_->{text} } map { Dsem::Teardown::left_in($_) } @of;
}

sub usage {
    my ($self) = @_;
    my %used;
    for my $node ($self->nodes) {
        for my $pid ($node->workers) {
            # one may end just now
            my $bytes = eval { $node->private($pid) } // next;
            push @{ $used{workers} }, { node => $node->name, pid => $pid,
                kb => $bytes / 1024,
                files => scalar(my @fds = glob "/proc/$pid/fd/*") };
        }
        push @{ $used{masters} }, { node => $node->name, pid => $node->pid,
            kb => $node->private($node->pid) / 1024,
            files => scalar(my @fd = glob '/proc/' . $node->pid . '/fd/*') };
    }
    my $server = $self->server('fifty');
    my $info = eval { $server->cmd('INFO') } // '';
    $used{redis} = { map { my $of = $_; $info =~ /^$of:(\d+)/m
        ? ($of => $1) : () } qw(used_memory connected_clients
        total_commands_processed evicted_keys total_error_replies) };
    $used{keys} = eval { [ sort @{ $server->cmd('KEYS', '*') } ] } // [];
    return %used;
}

###########################################################################
# the end

# Orders the end of everything that is left, and records how it ended.
sub end {
    my ($self) = @_;
    $self->{clients}->call('flush');
    Time::HiRes::sleep(0.3);
    my @left = eval { $self->left };
    my @slow = Dsem::Teardown::quit_nodes($self);
    my %killed = map { %{ $_->killed } } $self->nodes;
    $self->record('state', what => 'end', left => \@left, slow => \@slow,
        killed => [ sort keys %killed ], count => $self->begun);
    Dsem::Process->end_all;
}

1;
