#!/usr/bin/perl

# A proxy between nginx and Redis sends wrong replies: one too many, of another
# call, of another shape, without end. Each of them contains "granted". No
# request is admitted, no worker crashes, and all requests end.

use lib 't/lib';
use IO::Socket::INET;

use Dsem::Control;
use Dsem::Process;
use Dsem::Test;

my $t = Dsem::Test->new(lease => 2);
my $redis = $t->redis;
my $up = $t->upstream;

my $conf = <<'EOF_CONF';
worker_processes 1;
dsem_redis_connect_timeout 500ms;
dsem_redis_timeout 500ms;
dsem_lease 2s;
dsem_on_error reject;
dsem_status 503 error=500;
proxy_read_timeout 10m;
server {
    listen 127.0.0.1:%%PORT%%;
    location /lied {
        dsem api limit=1 timeout=2s;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /waits {
        dsem api limit=1 queue=10 timeout=10s;
        proxy_pass http://%%UPSTREAM%%;
    }
}
EOF_CONF

###########################################################################
# what is made of the reply to a sync with one ask

# [session, integers...] of a reply, and back
sub values_of {
    my ($frame) = @_;
    my ($session) = $frame =~ /^\*\d+\r\n\$\d+\r\n([^\r]*)\r\n/;
    return ($session, $frame =~ /^:(-?\d+)\r$/mg);
}

sub reply {
    my ($session, @n) = @_;
    return sprintf("*%d\r\n\$%d\r\n%s\r\n", 1 + @n, length $session, $session)
        . join '', map { ":$_\r\n" } @n;
}

sub changed {
    my ($i, $by) = @_;
    return sub {
        my @value = values_of(@_);
        $value[$i] += $by;
        return reply(@value);
    };
}

sub last_is {
    my ($element) = @_;
    return sub { $_[0] =~ s/:-?\d+\r\n\z/$element/r };
}

my $granted = sub {
    my @value = values_of(@_);
    $value[12] = 1 if @value > 12;
    return reply(@value);
};

my %lies = (
    'twice' => sub { $_[1] . $_[0] },
    'ok before' => sub { "+OK\r\n$_[0]" },
    'other session' => sub {
        my ($session, @n) = values_of($_[0]);
        return reply($session =~ s/.$/x/r, @n);
    },
    'longer session' => sub {
        my ($session, @n) = values_of($_[0]);
        return reply("${session}0", @n);
    },
    'older epoch' => changed(1, -1),
    'newer epoch' => changed(1, 1),
    'number before' => changed(2, -1),
    'number after' => changed(2, 1),
    'no such status' => changed(3, 6),
    'negative status' => changed(3, -1),
    'nested' => sub { "*1\r\n$_[0]" },
    'deeply nested' => sub { "*1\r\n" x 20 . $_[0] },
    'nested element' => last_is("*1\r\n:0\r\n"),
    'string for a number' => last_is("\$1\r\n0\r\n"),
    'null for a number' => last_is("\$-1\r\n"),
    'null session' => sub { $_[0] =~ s/\$\d+\r\n[^\r]*\r\n/\$-1\r\n/r },
    'too short' => sub { reply((values_of($_[0]))[0 .. 11]) },
    'head only' => sub { reply((values_of($_[0]))[0 .. 3]) },
    'empty' => sub { "*0\r\n" },
    'null' => sub { "\$-1\r\n" },
    'null array' => sub { "*-1\r\n" },
    'one number' => sub { ":1\r\n" },
    'giant array' => sub { "*1000000000\r\n$_[0]" },
    'giant bulk' => sub { "\$1000000000\r\n$_[0]" },
    'longest number' => last_is(":99999999999999999999\r\n"),
    'negative length' => sub { "*-5\r\n$_[0]" },
    'error' => sub { "-ERR no\r\n" },
    'forging error' => sub { "-ERR \0\1\e[31m\r1970/01/01 [alert] forged\r\n" },
    'endless error' => sub { '-ERR ' . 'x' x 100_000 . "\r\n" },
    'push' => sub { ">2\r\n+message\r\n+x\r\n$_[0]" },
    'null of RESP3' => sub { "_\r\n$_[0]" },
    'map' => sub { "%1\r\n+a\r\n:1\r\n$_[0]" },
    'another protocol' => sub { "HTTP/1.1 400 Bad Request\r\n\r\n" },
    'noise' => sub { join '', map { chr 37 * $_ % 256 } 1 .. 1000 },
    'nothing' => sub { '' },
    'no script' => sub { "-NOSCRIPT No matching script.\r\n" },
    # only "granted": a worker believes it, which shows that the lies have it
    'none' => sub { $_[0] },
);

###########################################################################
# the replies of the real Redis pass through a function that changes them

package Liar;

use Socket qw(IPPROTO_TCP TCP_NODELAY);

sub new {
    my ($class, $listen, $target, $lies) = @_;
    my $self = bless { target => $target, lies => $lies, accepted => 0 },
        $class;
    $self->{accept} = EV::io($listen, EV::READ(), sub {
        my $client = $listen->accept or return;
        my $server = IO::Socket::INET->new($self->{target}) or return;
        setsockopt $_, IPPROTO_TCP, TCP_NODELAY, 1 for $client, $server;
        $self->{accepted}++;
        my $pair = { client => $client, server => $server, in => '' };
        $self->{pair}{$pair} = $pair;
        $pair->{c2s} = EV::io($client, EV::READ(), sub {
            $self->pass($pair, $client, $server, sub { $_[0] });
        });
        $pair->{s2c} = EV::io($server, EV::READ(), sub {
            $self->pass($pair, $server, $client,
                sub { $self->replies($pair, $_[0]) });
        });
    });
    return $self;
}

sub pass {
    my ($self, $pair, $from, $to, $through) = @_;
    if (!sysread $from, my $bytes, 65_536) {
        delete $self->{pair}{$pair};
        undef %$pair;
        return;
    } else {
        my $out = $through->($bytes);
        my $slice = $self->{slice} || length $out;
        syswrite $to, substr $out, 0, $slice, '' while length $out;
    }
}

sub replies {
    my ($self, $pair, $bytes) = @_;
    my $out = '';
    $pair->{in} .= $bytes;
    while (my $n = Dsem::ProxyServer::frame_length(\$pair->{in}, 0)) {
        my $frame = substr $pair->{in}, 0, $n, '';
        $out .= $self->lie($frame);
    }
    return $out;
}

sub lie {
    my ($self, $frame) = @_;
    my $lie = $self->{lie} or return $frame;
    return $frame if $frame !~ /$lie->{match}/ || $lie->{times} == 0;
    $lie->{times}--;
    $self->{told}++;
    return $self->{lies}{ $lie->{name} }->($granted->($frame), $frame);
}

sub do_lie {
    my ($self, $name, $times, $match) = @_;
    $self->{lie} = { name => $name, times => $times, match => $match };
    $self->{told} = $self->{accepted} = 0;
    return 1;
}

sub do_slice { $_[0]{slice} = $_[1] }
sub do_told { $_[0]{told} }
sub do_accepted { $_[0]{accepted} }

package main;

# [what tells it to lie, its port]
sub liar {
    my ($name) = @_;
    my $port = $t->free_port;
    my $listen = IO::Socket::INET->new(LocalAddr => '127.0.0.1',
        LocalPort => $port, Listen => 100, ReuseAddr => 1)
        or die "listen: $!";
    my $path = $t->dir . "/$name.control";
    my $socket = Dsem::Control::listen_on($path);
    Dsem::Process->spawn(name => $name, log => $t->dir . "/$name.log",
        keep => [ $listen, $socket ], code => sub {
            # here and not in the test: it runs an event loop
            require EV;
            require Dsem::ProxyServer;
            my $liar = Liar->new($listen, $redis->address, \%lies);
            my $control = Dsem::Control::serve($socket, $liar);
            EV::run();
        });
    return (Dsem::Control->new($path), $port);
}

###########################################################################

my $honest = $t->node('honest', $conf);
# several, because each reconnects with pauses
my @lied = map {
    my ($liar, $port) = liar("liar$_");
    { liar => $liar,
        node => $t->node("lied$_", $conf, REDIS => "127.0.0.1:$port") };
} 1 .. 6;
my @workers = sort map { $_->{node}->workers } @lied;

# replies by their length; the fifth part of hello's is a generation
my $SYNC = '^\*15\r\n';
my $HELLO = '^\*13\r\n\$\d+\r\n\S+\r\n(?::\d+\r\n){3}:\d{6,}\r\n';
my $SCRIPT = '^\*\d+\r\n\$(?!7\r\nmessage)';

# where the scripts take longer than the timeout, Redis is unavailable at first
wait_for { $_->grep_log(qr/connected to redis/) } 15, 'sessions open'
    for $honest, map { $_->{node} } @lied;
my $holder = $honest->begin('/lied?hang=1');
eventually { $up->now == 1 } 'permit out';
is $_->{node}->get('/lied')->status, 503, 'refused by redis' for @lied;

# once

my @names = grep { $_ ne 'none' } sort keys %lies;
while (my @some = splice @names, 0, scalar @lied) {
    for my $i (0 .. $#some) {
        my ($name, $to) = ($some[$i], $lied[$i]);
        my ($told, $asked, @statuses);
        # unless the machine has something else to do
        for (1 .. 3) {
            $to->{liar}->call('lie', $name, 1, $SYNC);
            $asked = $to->{node}->get('/lied');
            push @statuses, $asked->status;
            $told = $to->{liar}->call('told');
            last if $told == 1 && $asked->took < 1.5;
            wait_for { $to->{node}->get('/lied')->status == 503 } 15,
                'service continues';
        }
        is $told, 1, "$name: reply injected";
        like "@statuses", qr/^50[03](?: 50[03])*$/, "$name: no grant";
        cmp_ok $asked->took, '<', 1.5, "$name: ended in time";
    }
    for my $i (0 .. $#some) {
        eventually { $lied[$i]{node}->get('/lied')->status == 503 }
            "$some[$i]: service continues";
    }
}

# for ever: to every ask, to every hello, to every call of a script

for (
    [ 'ok before', $SYNC ], [ 'number after', $SYNC ], [ 'too short', $SYNC ],
    [ 'noise', $SYNC ], [ 'nothing', $SYNC ], [ 'no script', $SYNC ],
    [ 'number after', $HELLO ], [ 'no script', $SCRIPT ],
) {
    my ($name, $match) = @$_;
    # in turn, because each reconnects with pauses
    push @lied, shift @lied;
    my ($node, $liar) = @{ $lied[0] }{qw(node liar)};
    my $title = "$name for ever" . ($match eq $HELLO ? ' to hello'
        : $match eq $SCRIPT ? ' to all' : '');
    my ($asked, $again, $told);
    my $slow = 0;
    # unless the machine has something else to do
    for (1 .. 3) {
        my $began = now;
        $liar->call('lie', $name, -1, $match);
        if ($match eq $HELLO) {
            $redis->client_kill;
            wait_for { $liar->call('told') } 15, 'a hello';
        }
        ($asked, $again) = map { $node->get('/lied') } 1, 2;
        $told = $liar->call('told');
        $slow = $told / 30 < now - $began;
        $liar->call('lie', '', 0, $SYNC);
        eventually { $node->get('/lied')->status == 503 }
            "$title: request served again";
        last if $told < 40
            && !grep { $_->status != 500 || $_->took >= 1 } $asked, $again;
    }
    # scripts that are lost fewer than 30 times a second are loaded again
    next if $name eq 'no script' && $slow && $asked->took >= 1;
    is $asked->status, 500, "$title: status is ERROR";
    cmp_ok $asked->took, '<', 1, "$title: refused in time";
    is $again->status, 500, "$title: second request refused";
    cmp_ok $again->took, '<', 1, "$title: second refused in time";
    cmp_ok $told, '<', 40, "$title: reconnects bounded";
}

# byte by byte it is still the truth

my ($node, $liar) = @{ $lied[0] }{qw(node liar)};
$liar->call('slice', 1);
# unless a reply came after the timeout
my $sliced;
for (1 .. 5) {
    $sliced = $node->get('/lied');
    last if $sliced->status == 503 || $sliced->latency < 0.45;
    eventually { $node->get('/lied')->status == 503 } 'slices: once more';
}
is $sliced->status, 503, 'slices: refused by redis';
$liar->call('slice', 0);

is $up->peak, 1, 'no grant';

# a right reply with "granted" in the place of "rejected"

# unless a reply came after the timeout
my $believed;
for (1 .. 5) {
    $liar->call('lie', 'none', 1, $SYNC);
    $believed = $node->get('/lied?t=1');
    last if $believed->status != 500;
    eventually { $node->get('/lied')->status == 503 } 'granted: once more';
}
is $believed->status, 200, 'granted: request admitted';
is $up->peak, 2, 'granted: beyond the limit';
is_deeply [ sort map { $_->{node}->workers } @lied ], \@workers,
    'same workers';
is scalar(map { $_->{node}->grep_log(qr/^1970/) } @lied), 0, 'no line forged';
is scalar(grep { /[^\t -~]/ } map { split /\n/, $_->{node}->error_log } @lied),
    0, 'nothing unprintable logged';
$up->release_all;
is $holder->wait->status, 200, 'holder served';
eventually { $node->get('/lied?t=1')->status == 200 } 'granted by redis';

$t->done;
