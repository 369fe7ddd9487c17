#!/usr/bin/perl

# A peer behind the address of Redis fails in one way or another, for eight
# seconds: it closes each connection, or closes it after the hello, sends
# garbage, is silent, rejects every command, closes only the subscription, or
# refuses connections. A worker makes at most two attempts a second for each of
# its two connections, at each address of a name, and is connected soon when the
# peer is Redis again.

use lib 't/lib';
use IO::Socket::INET;
use Time::HiRes ();

use Dsem::Control;
use Dsem::Process;
use Dsem::Test;

# the peer tells connections by their first command
delete $ENV{DSEM_ACL};

my $SECONDS = 8;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $up = $t->upstream;

###########################################################################
# a peer that fails as it is told; it passes everything on otherwise

package BadPeer;

# What a connection does with the bytes that it gets.
my %MANNER = (
    closes => sub { my ($self, $pair) = @_; $self->end($pair) },
    garbage => sub {
        my ($self, $pair) = @_;
        syswrite $pair->{client}, "HTTP/1.1 400 Bad Request\r\n\r\n";
    },
    rejects => sub {
        my ($self, $pair) = @_;
        syswrite $pair->{client}, "-NOAUTH Authentication required.\r\n";
    },
    silent => sub { },
);

sub new {
    my ($class, $port, $target) = @_;
    my $self = bless { port => $port, target => $target, manner => 'passes',
        kinds => {} }, $class;
    $self->do_listen(1);
    return $self;
}

sub do_listen {
    my ($self, $listens) = @_;
    delete $self->{accept};
    close delete $self->{listen} if $self->{listen};
    return 1 if !$listens;
    my $listen = $self->{listen} = IO::Socket::INET->new(
        LocalAddr => '127.0.0.1', LocalPort => $self->{port}, Listen => 100,
        ReuseAddr => 1) or die "listen: $!";
    $self->{accept} = EV::io($listen, EV::READ(), sub {
        my $client = $listen->accept or return;
        $self->accepted($client);
    });
    return 1;
}

sub accepted {
    my ($self, $client) = @_;
    my $pair = { client => $client, seen => '' };
    $self->{pair}{$pair} = $pair;
    if ($self->{manner} eq 'closes at once') {
        $self->{kinds}{any}++;
        return $self->end($pair);
    }
    $pair->{c2s} = EV::io($client, EV::READ(), sub { $self->client($pair) });
}

sub client {
    my ($self, $pair) = @_;
    sysread $pair->{client}, my $bytes, 65_536 or return $self->end($pair);
    $pair->{seen} .= substr $bytes, 0, 200 if length $pair->{seen} < 1000;
    if (!$pair->{kind}) {
        $pair->{kind} = $pair->{seen} =~ /-messages|SUBSCRIBE/ ? 'messages'
            : 'commands';
        $self->{kinds}{ $pair->{kind} }++;
    }
    my $manner = $MANNER{ $self->{manner} };
    return $manner->($self, $pair) if $manner;
    return $self->end($pair) if $self->{manner} eq 'no messages'
        && $pair->{kind} eq 'messages';
    if (!$pair->{server}) {
        my $server = $pair->{server} = IO::Socket::INET->new($self->{target})
            or return $self->end($pair);
        $pair->{s2c} = EV::io($server, EV::READ(), sub {
            sysread $server, my $reply, 65_536 or return $self->end($pair);
            syswrite $pair->{client}, $reply;
            # the first reply that begins with the session is that to hello
            $self->end($pair) if $self->{manner} eq 'closes after hello'
                && $reply =~ /^\*\d+\r\n\$\d+\r\n\S+:\d+:[0-9a-f]+\r\n/m;
            $self->end($pair) if $self->{manner} eq 'no messages later'
                && $reply =~ /subscribe/;
        });
    }
    syswrite $pair->{server}, $bytes;
}

sub end {
    my ($self, $pair) = @_;
    delete $self->{pair}{$pair};
    undef %$pair;
}

sub do_behave {
    my ($self, $manner) = @_;
    $self->{manner} = $manner;
    $self->{kinds} = {};
    $self->end($_) for values %{ $self->{pair} // {} };
    return 1;
}

sub do_kinds { $_[0]{kinds} }

package main;

# as many peers as manners, so that all of them take eight seconds together
my @MANNERS = ('closes at once', qw(closes garbage rejects silent),
    'closes after hello', 'no messages', 'no messages later', 'refuses',
    'refuses twice');
my $dns = $t->dns('redis.dsem.test' => [ '127.0.0.1', '127.0.0.2' ]);

my $conf = <<'EOF_CONF';
%%GLOBALS%%
error_log %%DIR%%/debug.log debug;
worker_processes 1;
events { }
http {
    %%HTTP%%
    dsem_redis %%REDIS%%;
    resolver %%DNS%%;
    dsem_redis_connect_timeout 500ms;
    dsem_redis_timeout 1s;
    dsem_node %%NODE%%;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / {
            dsem api limit=5 queue=10;
            proxy_pass http://%%UPSTREAM%%;
        }
    }
}
EOF_CONF

my %peer;
for my $manner (@MANNERS) {
    my $port = $t->free_port;
    my $name = $manner =~ s/ /_/gr;
    my $socket = Dsem::Control::listen_on($t->dir . "/$name.peer");
    Dsem::Process->spawn(name => $name, log => $t->dir . "/$name.log",
        keep => [ $socket ], code => sub {
            # here and not in the test: it runs an event loop
            require EV;
            my $peer = BadPeer->new($port, $redis->address);
            my $control = Dsem::Control::serve($socket, $peer);
            EV::run();
        });
    my $host = $manner =~ /twice/ ? 'redis.dsem.test' : '127.0.0.1';
    $peer{$manner} = {
        control => Dsem::Control->new($t->dir . "/$name.peer"),
        node => $t->node($name, $conf, REDIS => "$host:$port"),
    };
}

sub session {
    my ($node) = @_;
    my $name = $node->name;
    return grep { /^\Q$name\E:/ } $t->state->sessions;
}

sub epoch {
    my ($node) = @_;
    my ($session) = session($node) or return 0;
    return ($t->state->entry($session) // {})->{declared} // 0;
}

# what a worker logged, from there on
sub debug_log {
    my ($node, $from) = @_;
    open my $log, '<', $node->dir . '/debug.log' or die "debug.log: $!";
    seek $log, $from, 0;
    return <$log>;
}

# no peer can count them
sub refused {
    my ($node, $from) = @_;
    my %n = (commands => 0, messages => 0);
    /dsem (redis down|subscription lost): .*refused/
        && $n{ $1 eq 'redis down' ? 'commands' : 'messages' }++
        for debug_log($node, $from);
    return \%n;
}

eventually { $t->state->sessions == @MANNERS } 'all connected';
if (!grep { /\[debug\].* dsem session/ } debug_log($peer{refuses}{node}, 0)) {
    diag 'nginx without debug: refused connections are not counted';
    @MANNERS = grep { !/^refuses/ } @MANNERS;
}
# each connection has been good for a heartbeat
my $connected = now;
wait_for { now > $connected + 1.1 } 15, 'good connections';

for (@MANNERS) {
    my $control = $peer{$_}{control};
    $peer{$_}{epoch} = epoch($peer{$_}{node});
    $peer{$_}{log} = -s $peer{$_}{node}->dir . '/debug.log';
    $control->call('listen', 0) if /^refuses/;
    $control->call('behave', $_);
    $peer{$_}{began} = now;
}
my $began = now;

# by kind of connection
sub attempts {
    my ($manner) = @_;
    my ($control, $node, $log) = @{ $peer{$manner} }{qw(control node log)};
    my $kinds = $manner =~ /^refuses/ ? refused($node, $log)
        : $control->call('kinds');
    my @of = $manner eq 'closes at once' ? 'any'
        : $manner =~ /^no messages/ ? 'messages' : qw(commands messages);
    return { map { $_ => $kinds->{$_} // 0 } @of };
}

# the first one is that after the end of the good connection
sub retried { return !grep { $_ <= 2 } values %{ attempts($_[0]) } }

wait_for { now > $began + $SECONDS && !grep { !retried($_) } @MANNERS } 60,
    'eight seconds, and attempts of each';

for my $manner (@MANNERS) {
    my $n = attempts($manner);
    my $seconds = now - $peer{$manner}{began};
    for my $kind (sort keys %$n) {
        my $most = ($kind eq 'any' || $manner =~ /twice/ ? 4 : 2) * $seconds;
        cmp_ok $n->{$kind}, '<=', $most, "$manner: few attempts, $kind";
        cmp_ok $n->{$kind}, '>', 2, "$manner: retried, $kind";
        note sprintf '%s: %.2f attempts/s (%s)', $manner,
            $n->{$kind} / $seconds, $kind;
    }
}

# Redis again

my %waits = map { $_ => epoch($peer{$_}{node}) } @MANNERS;
my (%back, %again);
for (@MANNERS) {
    my $control = $peer{$_}{control};
    $control->call('listen', 1) if /^refuses/;
    $control->call('behave', 'passes');
    $back{$_} = now;
}
delete @waits{ grep { /^no messages/ } @MANNERS };
wait_for {
    for (keys %waits) {
        next if epoch($peer{$_}{node}) <= $waits{$_};
        delete $waits{$_};
        $again{$_} = took($back{$_});
    }
    !%waits;
} 15, 'all sessions';
for (grep { exists $again{$_} } @MANNERS) {
    cmp_ok $again{$_}, '<', 3, "$_: connected again";
    note sprintf '%s: connected again after %.3f s', $_, $again{$_};
}

$t->done;
