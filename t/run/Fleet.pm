package Fleet;

# A fleet on this machine: a private Redis, a backend that counts its concurrent
# requests, and two nginx nodes that run conf.example. Replaces Dsem::Test for
# the parts of the harness that it uses. No process started here outlives the
# script, however the script ends.
#
# Called by: fleet.pl.

use strict;
use warnings;

use Carp qw(croak);
use File::Path qw(make_path remove_tree);
use IO::Select;
use IO::Socket::UNIX;

# for the path of the repository
use Dsem::Test ();
use Dsem::Client;
use Dsem::Node;
use Dsem::Process;
use Dsem::Redis;
use Dsem::State;
use Dsem::Upstream;
use Dsem::Wait qw(now took time_factor wait_for);

use Fleet::Conf;
use Fleet::Second;
use Fleet::Third;

use constant WORKERS => 2;

# seconds after the last response until no permit is held: an idle one stays in
# its worker for dsem_reuse, 5 s by default
use constant SETTLED => 15;

# node a at port, node b at port + 1, the backend at port + 10
sub new {
    my ($class, %opt) = @_;
    my $self = bless {
        service => 0.020,
        text => Fleet::Conf::read_text("$Dsem::Test::ROOT/conf.example"),
        dir => "$Dsem::Test::ROOT/build/run/$opt{port}", %opt,
    }, $class;
    $self->{sem} = Fleet::Conf::semaphore($self->{text}, 'reports');
    return $self;
}

sub ports {
    my ($self) = @_;
    return (map({ $self->port_of($_) } $self->names), $self->free_port);
}

sub start {
    my ($self) = @_;
    remove_tree($self->{dir});
    make_path($self->{dir});
    $self->start_metronome;
    $self->{redis} = Dsem::Redis->new($self, 'redis', port => 0);
    $self->{backend} = Dsem::Upstream->new($self, 'backend',
        service => $self->{service});
    $self->{node}{$_} = $self->start_node($_) for $self->names;
    return $self;
}

# Before all others, whose deadlines do not count the stalls that it notes. A
# test has one.
sub start_metronome {
    my ($self) = @_;
    Dsem::Test::start_metronome("$self->{dir}/metronome")
        unless $ENV{DSEM_METRONOME};
    wait_for { -s $ENV{DSEM_METRONOME} } 10, 'the metronome';
}

sub start_node {
    my ($self, $name) = @_;
    return Dsem::Node->new($self, $name, $self->conf($name))->start;
}

# Not a daemon: it stays in the process group that the harness watches.
sub conf {
    my ($self, $name) = @_;
    my $text = $self->relocated($name, user => $> == 0 ? 'root' : undef,
        worker_processes => WORKERS . '; daemon off');
    $text = Fleet::Conf::add_location($text, @$_)
        for ['/unlimited/', 'dsem off;', 'proxy_pass http://backend;'],
        Fleet::Second::locations(), Fleet::Third::locations();
    return Fleet::Conf::add_to_http($text,
        Fleet::Third::upstreams($self->{dir}));
}

# The configuration with the paths and addresses of this node.
sub relocated {
    my ($self, $name, %more) = @_;
    my $dir = "$self->{dir}/$name";
    my $text = Fleet::Conf::relocate($self->{text},
        load_module => Dsem::Node::Conf::module(),
        pid => "$dir/nginx.pid",
        error_log => "$dir/error.log notice",
        access_log => "$dir/access.log fleet",
        listen => '127.0.0.1:' . $self->port_of($name),
        'backend server' => $self->{backend}->address,
        dsem_redis => 'unix:' . $self->{redis}->unix,
        %more,
    );
    return Fleet::Conf::add_to_http($text, "dsem_node $name;",
        map { "${_}_temp_path $dir/temp/$_;" }
            qw(client_body proxy fastcgi uwsgi scgi));
}

sub end { Dsem::Process->end_all }

###########################################################################
# accessors

sub dir { $_[0]{dir} }
sub names { qw(a b) }
sub service { $_[0]{service} }
sub semaphore { $_[0]{sem} }
sub backend { $_[0]{backend} }
sub redis { $_[0]{redis} }
sub state { Dsem::State->new($_[0]{redis}) }
sub node { $_[0]{node}{ $_[1] } }

# The harness needs one free port only, the backend's.
sub free_port { $_[0]{port} + 10 }

sub port_of {
    my ($self, $name) = @_;
    return $self->{port} + ord($name) - ord 'a';
}

sub url {
    my ($self, $name) = @_;
    return 'http://127.0.0.1:' . $self->port_of($name);
}

# The page of the API, as conf.example has it.
sub page {
    my ($self, $name) = @_;
    my ($path) = $self->{text} =~ /^\s*location (\S+) \{[^}]*\bdsem_api\b/m
        or croak 'conf.example has no location with "dsem_api"';
    return $self->url($name) . $path;
}

# Requests that wait for this semaphore in the whole fleet, by Redis. Undefined
# while Redis does not reply: the user may have stopped it.
sub waiting {
    my ($self, $name) = @_;
    my $sock = $self->{gauge} //= IO::Socket::UNIX->new(
        Peer => $self->{redis}->unix) // return;
    my $state = $self->state;
    $self->{asked} //= syswrite $sock,
        join(' ', $state->waiting_asked($name)) . "\r\n";
    return unless IO::Select->new($sock)->can_read(0.1);
    delete $self->{asked};
    my $n = sysread $sock, my $reply, 4096;
    return $state->waiting_replied($1)
        if $n && $reply =~ /^\$(?:-1|\d+\r\n(.*))\r\n/;
    delete $self->{gauge};
    return;
}

# From now on these semaphores must settle: no permit is held and no ticket
# waits, the key is deleted then.
sub expect_settled {
    my ($self, @names) = @_;
    $self->{unsettled}{$_} = now for @names;
}

# Those that have not yet settled, and those that did not in time.
sub unsettled { sort keys %{ $_[0]{unsettled} } }
sub leaked { sort keys %{ $_[0]{leaked} } }

sub look {
    my ($self) = @_;
    for my $name ($self->unsettled) {
        if ($self->state->exists($name)) {
            next if took($self->{unsettled}{$name}) <= SETTLED * time_factor;
            $self->{leaked}{$name} = 1;
        }
        delete $self->{unsettled}{$name};
    }
}

# The limit in force, as the API shows it.
sub limit {
    my ($self, $name) = @_;
    my $client = $self->{client} //= Dsem::Client->new;
    my $answer = eval { $client->get($self->page('a') . "semaphores/$name") }
        or return;
    return $answer->body =~ /"limit":(\d+)/ ? $1 : undef;
}

sub access_log {
    my ($self, $name) = @_;
    my $text = Fleet::Conf::read_text("$self->{dir}/$name/access.log");
    return split /\n/, $text;
}

1;
