package Dsem::Redis::Client;

# One connection of the test to Redis, by libredis-perl. In addition a list
# reply is always an array reference, and messages are read one by one.
#
# Called by: Dsem::Redis, Dsem::Test (connect).

use strict;
use warnings;

use Carp qw(croak);
use Redis ();

use Dsem::Wait qw(wait_for);

sub new {
    my ($class, $unix, $password) = @_;
    my $redis = Redis->new(
        sock => $unix, encoding => undef, reconnect => 0,
        conservative_reconnect => 1, no_auto_connect_on_new => 1);
    my $self = bless { redis => $redis, messages => [] }, $class;
    $redis->connect;
    $self->cmd('AUTH', $password) if defined $password;
    return $self;
}

sub cmd {
    my ($self, $name, @args) = @_;
    return $self->_subscribe($name, @args) if $name =~ /^p?subscribe$/i;
    # not by the methods, because some of them reshape the reply
    return scalar $self->{redis}->__std_cmd($name, @args);
}

# Its reply is read with that of the next command, and not looked at.
sub later {
    my ($self, $name, @args) = @_;
    $self->{redis}->__std_cmd($name, @args, sub { });
}

sub _subscribe {
    my ($self, $name, @channels) = @_;
    my $method = lc $name;
    $self->{redis}->$method(@channels, sub {
        my ($text, $channel) = @_;
        push @{ $self->{messages} }, ['message', $channel, $text];
    });
    return scalar @channels;
}

# The next message: [kind, channel, text].
sub reply {
    my ($self, $timeout) = @_;
    my $messages = $self->{messages};
    wait_for {
        # waits for 5 ms at most
        @$messages || $self->{redis}->wait_for_messages(0.005);
        scalar @$messages;
    } $timeout // 5, 'a message';
    return shift @$messages;
}

1;
