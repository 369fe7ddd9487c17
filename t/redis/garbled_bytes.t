#!/usr/bin/perl

# The bytes from Redis are damaged under load on both connections: changed,
# lost, doubled, reordered. A worker may accept a wrong reply, but it neither
# crashes nor waits forever. Over a clean connection the service is as before.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/../lib";

use IO::Socket::INET;

use Dsem::Control;
use Dsem::Process;
use Dsem::Test;

my $DAMAGES = $ENV{DSEM_LONG} ? 300 : 6;
my $LIMIT = 3;

my $t = Dsem::Test->new(lease => 1);
my $redis = $t->redis;
my $up = $t->upstream(service => 0.010);

my $conf = <<'EOF_CONF';
%%GLOBALS%%
worker_processes 2;
events { }
http {
    %%HTTP%%
    dsem_redis %%REDIS%%;
    dsem_redis_timeout 200ms;
    dsem_node %%NODE%%;
    dsem_lease 1s;
    dsem_log_level info;
    server {
        listen 127.0.0.1:%%PORT%%;
        location /garbled {
            dsem api limit=3 queue=50 timeout=5s;
            proxy_pass http://%%UPSTREAM%%;
        }
    }
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

my $port = $t->free_port;
my $listen = IO::Socket::INET->new(LocalAddr => '127.0.0.1',
    LocalPort => $port, Listen => 100, ReuseAddr => 1) or die "listen: $!";
my $socket = Dsem::Control::listen_on($t->dir . '/garbler');
Dsem::Process->spawn(name => 'garbler', log => $t->dir . '/garbler.log',
    keep => [ $listen, $socket ], code => sub {
        # here and not in the test: it runs an event loop
        require EV;
        my $garbler = Garbler->new($listen, $redis->address);
        my $control = Dsem::Control::serve($socket, $garbler);
        EV::run();
    });
my $garbler = Dsem::Control->new($t->dir . '/garbler');

###########################################################################

my $node = $t->node('a', $conf, REDIS => "127.0.0.1:$port");
my @workers = $node->workers;

sub load {
    return $t->load_start(urls => [ $node->url('/garbled') ], clients => 12,
        timeout => 15, @_);
}

is_deeply [ keys %{ load(requests => 60)->wait->{statuses} } ], [200],
    'clean: all served';

for my $how (sort qw(changed digits types lost doubled swapped)) {
    $garbler->call('garble', $how);
    my $load = load(seconds => 600);
    eventually { $garbler->call('done') >= $DAMAGES }
        "$how: bytes really garbled", 10 + $DAMAGES;
    my $result = $load->stop->wait;
    is_deeply [ grep { !/^(?:200|503)$/ } keys %{ $result->{statuses} } ],
        [], "$how: every request answered"
        or diag explain $result->{statuses};
    is $result->{mismatched}, 0, "$how: each response complete";
    note join ', ', "$how: " . $garbler->call('done') . ' times',
        map { "$_ $result->{statuses}{$_}" } sort keys %{ $result->{statuses} };

    $garbler->call('mend');
    my @all = map { $node->begin('/garbled?hang=1') } 1 .. $LIMIT;
    eventually { $up->now == $LIMIT } "$how, then clean: all permits returned";
    $up->release_all;
    $_->wait for @all;
}

is_deeply [ $node->workers ], \@workers, 'same workers';
wait_for { $node->get('/garbled?t=1')->status == 200 } 15, 'service';
# all is declared over the clean connections, and beaten since
wait_for { $t->state->session_count == @workers && !$redis->recovering } 15,
    'any recovery to end';
$redis->beats(2 * @workers, 'heartbeats');
$up->reset;
my $result = load(requests => 150)->wait;
is_deeply [ keys %{ $result->{statuses} } ], [200], 'in the end: all served';
is $up->peak, $LIMIT, 'in the end: limit reached, never exceeded';
is scalar(grep { /[^\t -~]/ } split /\n/, $node->error_log), 0,
    'nothing unprintable logged';

$t->done;
