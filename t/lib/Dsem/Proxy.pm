package Dsem::Proxy;

# A TCP proxy as the test sees it: the network between nginx and Redis (or
# between two Redis servers), which hangs, cuts, delays and loses data on
# demand. c2s is the direction from nginx to Redis, s2c the opposite one.
#
# Called by: Dsem::Test.

use strict;
use warnings;

use File::Path qw(make_path);

use Dsem::Control;
use Dsem::Process;

sub new {
    my ($class, $t, $name, $target) = @_;
    my $dir = $t->dir . "/$name";
    make_path($dir);
    my $port = $t->free_port;
    my $control = Dsem::Control::listen_on("$dir/control");
    my $process = Dsem::Process->spawn(
        name => $name, log => "$dir/log", keep => [$control],
        code => sub {
            require Dsem::ProxyServer;
            Dsem::ProxyServer::run($control, $port, $target);
        });
    my $self = bless {
        name => $name, address => "127.0.0.1:$port", process => $process,
        control => Dsem::Control->new("$dir/control"),
    }, $class;
    # replies as soon as the proxy listens
    $self->accepted;
    return $self;
}

sub name { $_[0]{name} }
sub address { $_[0]{address} }
sub process { $_[0]{process} }

sub _ask {
    my ($self, @request) = @_;
    return $self->{control}->call(@request);
}

# Connections accepted so far, and open now.
sub accepted { $_[0]->_ask('accepted') }
sub open { $_[0]->_ask('open') }

# { c2s => bytes, s2c => bytes } passed on so far
sub bytes { $_[0]->_ask('bytes') }

# { c2s => writes, s2c => writes } so far
sub pieces { $_[0]->_ask('pieces') }

# Ends every connection, on both sides, with FIN or with RST.
sub cut { $_[0]->_ask('cut', 0) }
sub reset { $_[0]->_ask('cut', 1) }

# Nothing passes, on new connections either, and no connection is closed. Data
# in transit passes at the thaw.
sub freeze { $_[0]->_ask('freeze', $_[1] // 'both') }
sub thaw { $_[0]->_ask('thaw', $_[1] // 'both') }

# Nothing passes from Redis on a connection from the data on that matches, until
# the thaw; other connections are as before.
sub hold { $_[0]->_ask('hold', $_[1]) }

# Delays data by so many seconds, in one direction or both.
sub delay { $_[0]->_ask('delay', $_[1], $_[2] // 'both') }

# Loses whole RESP frames that match a regular expression (match; by default
# every pub/sub message): all of them or every n-th (every), always or count
# times. Without arguments: loses no more frames.
sub swallow {
    my ($self, %what) = @_;
    $what{match} //= '^\*3\r\n\$7\r\nmessage\r\n' if %what;
    return $self->_ask('swallow', %what);
}

# Number of lost frames so far.
sub swallowed { $_[0]->_ask('swallowed') }

# Resets both sides, once, when so many more bytes have passed.
sub cut_after { $_[0]->_ask('cut_after', $_[1], $_[2] // 's2c') }

# Passes data in segments of so many bytes, so many seconds apart; 0: unchanged.
sub slice { $_[0]->_ask('slice', @_[1, 2]) }

# Replaces what matches in each part of a reply, by as many bytes.
sub rewrite { $_[0]->_ask('rewrite', $_[1], $_[2]) }

# Sends these bytes on every open connection, by default as if Redis had.
sub inject { $_[0]->_ask('inject', $_[1], $_[2] // 's2c') }

# Refuses connections, like a closed port; 0: accepts them again.
sub refuse { $_[0]->_ask('refuse', $_[1] // 1) }

# Sets the target of new connections.
sub retarget { $_[0]->_ask('retarget', $_[1]) }

# As an endpoint that keeps connections over a failover: each goes on at the
# target. Only a subscription ends.
sub swap { $_[0]->_ask('swap') }

1;
