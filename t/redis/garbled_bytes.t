#!/usr/bin/perl

# The bytes from Redis are damaged under load on both connections: changed,
# lost, doubled, reordered. A worker may accept a wrong reply, but it neither
# crashes nor waits forever. Over a clean connection the service is as before.

use lib 't/lib';
use IO::Socket::INET;

use Dsem::Control;
use Dsem::Process;
use Dsem::Test;

my $DAMAGES = $ENV{DSEM_LONG} ? 300 : 6;
my $LIMIT = 3;

my $t = Dsem::Test->new(lease => 1);

my $conf = <<'EOF_CONF';
worker_processes 2;
dsem_redis_timeout 200ms;
dsem_lease 1s;
dsem_log_level info;
location /garbled {
    dsem api limit=3 queue=50 timeout=5s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

###########################################################################
# the damaging proxy

package Garbler;

my %DAMAGE = (
    changed => sub { substr $_[0], $_[1], 1, chr int rand 256 },
    digits => sub { $_[0] =~ s/(?<=.{$_[1]})\d/int rand 10/se },
    types => sub {
        my @type = split //, '*$:+-%>_~,';
        $_[0] =~ s/(?<=.{$_[1]})\r\n[*\$:+-]/"\r\n" . $type[rand @type]/se;
    },
    lost => sub { substr $_[0], $_[1], 1 + int rand 20, '' },
    doubled => sub { substr $_[0], $_[1], 0, substr $_[0], 0, $_[1] },
    swapped => sub { $_[0] = substr($_[0], $_[1]) . substr $_[0], 0, $_[1] },
);

sub new {
    my ($class, $listen, $target) = @_;
    my $self = bless { target => $target, done => 0 }, $class;
    srand 1;
    $self->{accept} = EV::io($listen, EV::READ(), sub {
        my $client = $listen->accept or return;
        my $server = IO::Socket::INET->new($self->{target}) or return;
        my $pair = { client => $client, server => $server };
        $self->{pair}{$pair} = $pair;
        $pair->{c2s} = EV::io($client, EV::READ(),
            sub { $self->pass($pair, $client, $server, 0) });
        $pair->{s2c} = EV::io($server, EV::READ(),
            sub { $self->pass($pair, $server, $client, $self->{how}) });
    });
    return $self;
}

# one in ten of what is read at once
sub pass {
    my ($self, $pair, $from, $to, $how) = @_;
    if (!sysread $from, my $bytes, 65_536) {
        delete $self->{pair}{$pair};
        undef %$pair;
    } else {
        if ($how && rand() < 0.1) {
            my $at = int rand length $bytes;
            # a long look behind is too much for perl
            $at %= 200;
            $DAMAGE{$how}->($bytes, $at);
            $self->{done}++;
        }
        syswrite $to, $bytes;
    }
}

sub do_garble { $_[0]{how} = $_[1]; $_[0]{done} = 0 }
sub do_done { $_[0]{done} }

# all connections end, and the next ones are clean
sub do_mend {
    my ($self) = @_;
    $self->{how} = undef;
    undef %$_ for values %{ delete $self->{pair} // {} };
    return 1;
}

package main;

# with a Redis of its own: three damages at the same time
sub lane {
    my ($name) = @_;
    my $redis = $t->redis;
    my $up = $t->upstream(service => 0.010);
    my $port = $t->free_port;
    my $listen = IO::Socket::INET->new(LocalAddr => '127.0.0.1',
        LocalPort => $port, Listen => 100, ReuseAddr => 1)
        or die "listen: $!";
    my $path = $t->dir . "/$name.control";
    my $socket = Dsem::Control::listen_on($path);
    Dsem::Process->spawn(name => "garbler-$name",
        log => $t->dir . "/$name.log",
        keep => [ $listen, $socket ], code => sub {
            # here and not in the test: it runs an event loop
            require EV;
            my $garbler = Garbler->new($listen, $redis->address);
            my $control = Dsem::Control::serve($socket, $garbler);
            EV::run();
        });
    my $node = $t->node($name, $conf, REDIS => "127.0.0.1:$port");
    return { redis => $redis, up => $up, node => $node,
        state => Dsem::State->new($redis), workers => [ $node->workers ],
        garbler => Dsem::Control->new($path) };
}

###########################################################################

sub load {
    my ($lane, @how) = @_;
    return $t->load_start(urls => [ $lane->{node}->url('/garbled') ],
        clients => 12, timeout => 15, @how);
}

sub garbled {
    my ($lane, $how) = @_;
    $lane->{garbler}->call('garble', $how);
    @$lane{qw(how load)} = ($how, load($lane, seconds => 600));
}

sub ends {
    my ($lane) = @_;
    my ($how, $garbler) = @$lane{qw(how garbler)};
    eventually { $garbler->call('done') >= $DAMAGES }
        "$how: bytes really garbled", 10 + $DAMAGES;
    $lane->{load}->stop;
}

sub answered {
    my ($lane) = @_;
    my ($how, $garbler) = @$lane{qw(how garbler)};
    my $result = $lane->{load}->wait;
    is_deeply [ grep { !/^(?:200|503)$/ } keys %{ $result->{statuses} } ],
        [], "$how: every request answered"
        or diag explain $result->{statuses};
    is $result->{mismatched}, 0, "$how: each response complete";
    note join ', ', "$how: " . $garbler->call('done') . ' times',
        map { "$_ $result->{statuses}{$_}" } sort keys %{ $result->{statuses} };

    $garbler->call('mend');
    $lane->{all} = [ map { $lane->{node}->begin('/garbled?hang=1') }
        1 .. $LIMIT ];
}

sub clean {
    my ($lane) = @_;
    my ($how, $up) = @$lane{qw(how up)};
    eventually { $up->now == $LIMIT } "$how, then clean: all permits returned";
    $up->release_all;
    $_->wait for @{ $lane->{all} };
}

# all is declared over the clean connections, and beaten since
sub recovers {
    my ($lane) = @_;
    my ($redis, $node, $state, $workers) = @$lane{qw(redis node state workers)};
    is_deeply [ $node->workers ], $workers, 'same workers';
    wait_for { $node->get('/garbled?t=1')->status == 200 } 15, 'service';
    wait_for { $state->session_count == @$workers && !$state->recovering } 15,
        'any recovery to end';
    $redis->all_beat(scalar @$workers);
    $lane->{up}->reset;
    $lane->{load} = load($lane, requests => 150);
}

sub as_before {
    my ($lane) = @_;
    my ($up, $node) = @$lane{qw(up node)};
    is_deeply [ keys %{ $lane->{load}->wait->{statuses} } ], [200],
        'in the end: all served';
    is $up->peak, $LIMIT, 'in the end: limit reached, never exceeded';
    is scalar(grep { /[^\t -~]/ } split /\n/, $node->error_log), 0,
        'nothing unprintable logged';
}

my @lanes = map { lane($_) } qw(a b c);
$_->{load} = load($_, requests => 60) for @lanes;
is_deeply [ keys %{ $_->{load}->wait->{statuses} } ], [200],
    'clean: all served' for @lanes;
for my $damages ([qw(changed digits types)], [qw(lost doubled swapped)]) {
    garbled($lanes[$_], $damages->[$_]) for 0 .. $#lanes;
    ends($_) for @lanes;
    answered($_) for @lanes;
    clean($_) for @lanes;
}
recovers($_) for @lanes;
as_before($_) for @lanes;

$t->done;
