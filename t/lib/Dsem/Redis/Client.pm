package Dsem::Redis::Client;

# One connection of the test to Redis, in libredis-perl's hands: what we add
# is that a list reply is always an array reference, and that messages can
# be taken one by one.
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
    # below the methods, some of which reshape the reply
    return scalar $self->{redis}->__std_cmd($name, @args);
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
        # it returns when nothing has come for so long
        @$messages || $self->{redis}->wait_for_messages(0.005);
        scalar @$messages;
    } $timeout // 5, 'a message';
    return shift @$messages;
}

1;
