#!/usr/bin/perl

# make run: shows that the limit holds, that shares are fair and that a limit
# finds itself, says so in its exit status, and leaves nothing behind, however
# it ends.

###############################################################################

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/../lib", "$FindBin::Bin/../run";

use IO::Pty;
use IO::Select;
use IO::Socket::INET;
use POSIX ();

use Dsem::Test;
use Fleet::Conf;

###############################################################################

my $t = Dsem::Test->new;

my ($port, $played, @ended) = free_ports(6);
my @command = command($port);

my $limit = Fleet::Conf::semaphore(
    Fleet::Conf::read_text("$FindBin::Bin/../../conf.example"), 'reports')
    ->{limit};

# to the end, without a terminal, and beside it one on a terminal

my ($pid, $screen) = on_terminal($^X, command($played));
my $said = '';
open my $out, '-|', "$^X @command 2>&1" or die "fork: $!";
while (1) {
    $screen->();
    next if !IO::Select->new($out)->can_read(0.2);
    sysread $out, $said, 4096, length $said or last;
}
close $out;
is($?, 0, 'the limit held') or diag $said;

like($said, qr/\AOpen http:\/\/127\.0\.0\.1:$port\/\S+\n/, 'page first');
like($said, qr/^ +\d+ s +\d+\/s answered/m, 'progress shown');
like($said, qr/^ +node a +node b +fleet$/m, 'table headed');
like($said, qr/^  requests +[1-9]\d* +[1-9]\d* +[1-9]\d*$/m,
    'requests counted');
like($said, qr/^  200, answered +[1-9]\d* +[1-9]\d* +[1-9]\d*$/m,
    'answers counted');
like($said, qr/^  503, rejected +\d+ +\d+ +[1-9]\d*$/m,
    'rejections counted');
like($said, qr/^  wait, longest(?: +[0-9]\.[0-9]+ s){3}$/m, 'waits measured');
like($said, qr/^  peak at the backend +$limit +of $limit$/m,
    'peak equals the limit');
my ($goodput, $part, $unlimited) = $said =~ m{^\ \ goodput\ (\d+)/s,
    \ (\d+)\ %\ of\ what\ this\ machine\ reaches\ without\ a\ limit
    \ \((\d+)/s\)$}mx;
cmp_ok($unlimited // 0, '>', 0, 'measured without a limit');
cmp_ok(abs(($part // 0) * ($unlimited // 0) / 100 - ($goodput // 0)), '<=',
    1 + ($unlimited // 0) / 100, 'goodput compared with it');
like($said, qr/^The limit held: never more than $limit requests/m, 'verdict');

# the second act; that no request of a quiet tenant was rejected with "fair="
# is in the exit status

like($said, qr/^ +noisy +quiet1 +quiet2 +quiet3$/m, 'tenants headed');
for my $how ('without', 'with') {
    my ($part) = $said =~ /^  $how "fair=", peak 10 of 10\n((?:    .*\n)+)/m;
    like($part // '', qr/^    requests(?: +[1-9]\d*){4}$/m,
        "tenants counted $how fair=");
    like($part // '', qr/^    permits in use, mean(?: +\d\.\d){4}$/m,
        "permits measured $how fair=");
}
like($said, qr/^Rejected .*, without "fair=": [1-9]\d* of [1-9]\d*\.$/m,
    'quiet tenants rejected without fair=');
like($said, qr/^Rejected .*, with it: 0 of [1-9]\d*\.$/m,
    'none rejected with fair=');
for my $line ('limit=5', 'limit=20', 'limit=100', 'limit=auto, second half') {
    like($said, qr/^\ \ \Q$line\E\ +[1-9]\d*\ +[1-9]\d*\/s\ +[1-9]\d*\ ms
        \ +\d+\.\d+\ s$/mx, "$line measured");
}
like($said, qr/^  limit=auto answers [1-9]\d* % of the best fixed limit\.$/m,
    'compared with fixed limits');
like($said, qr/^  Its limit:(?:  \d\.\d s: \d+){3,}$/m, 'limits by time');

unlike($said, qr/The fleet is up/, 'no invitation to play');
unlike($said, qr/^.{81}/m, '80 columns');
unlike($said, qr/[^ -~\n]/, 'plain text');
like($said, $_, "as in the README: $_") for quoted();
is_deeply([left($port)], [], 'nothing left');

# ports that are taken

my $taken = IO::Socket::INET->new(LocalAddr => '127.0.0.1',
    LocalPort => $port + 1, Listen => 1, ReuseAddr => 1);
$said = qx($^X @command 2>&1);
is($? >> 8, 2, 'busy port refused');
is($said, 'make run: port ' . ($port + 1) . ' is in use, nothing was '
    . "started; \"make run PORT=9000\" takes other ones\n", 'port named');
is_deeply([left($port)], [], 'nothing started');
close $taken;

$said = qx(PORT=high $^X $command[0] 2>&1);
like($said, qr/PORT must be a number from 1 to 65525, not "high"/,
    'bad port named');

# ended from outside, under load

my @fleet = map {
    my $pid = open my $from, '-|', $^X, command($_) or die "fork: $!";
    { port => $_, pid => $pid, from => $from }
} @ended;
for my $signal (qw(INT TERM HUP KILL)) {
    my ($port, $pid, $from) = @{ shift @fleet }{qw(port pid from)};
    while (<$from>) { last if /answered/ }
    cmp_ok(scalar left($port), '>', 5, 'a fleet is up');
    kill $signal, $pid;
    # soon: it would end by itself
    eventually { $screen->(); !left($port) } "nothing left after SIG$signal", 4;
    close $from;
}

# the terminal: up until Ctrl-C

eventually { $screen->() =~ /The fleet is up.*at once/s }
    'a fleet to play with', 120 or kill 'TERM', $pid;
is(eval { $t->client->get("http://127.0.0.1:$played/reports/")->status }, 200,
    'a node answers');

# the page, at both nodes, and a limit that is set by it

my ($page) = $screen->() =~ /^Open (\S+)/m;
like($screen->(), qr/^Open \Q$page\E\r?\n.*\n.*at once/m, 'page last');
for my $at ($played, $played + 1) {
    my $url = $page =~ s/:$played/:$at/r or die $page;
    my $answer = $t->client->get($url);
    is($answer->status, 200, "page at $at");
    like($answer->header('Content-Type'), qr/^text\/html/, "HTML at $at");
}
my ($order) = $screen->() =~ tr/\r//dr =~ /^  (curl -X PATCH.*\\\n.*)$/m;
my $back = $order =~ s/5/null/r;
like(qx($order 2>&1), qr/"limit":5\b/, 'limit set') or diag $order;
like(qx($back 2>&1), qr/"limit":$limit\b/, 'limit set back');

# what it prints to try with a Redis that hangs

my ($try) = $screen->() =~ /^  # Redis hangs.*?\n(.*?)\n\s*\n/ms;
my @answers = map { [split] } split /\n/, qx{@{[ $try =~ tr/\r//dr ]}};
is_deeply([ map { $_->[0] } @answers ], [(200) x 9], 'answers without Redis')
    or diag $try;
cmp_ok($_->[1], '<', 0.7, 'an answer at once') for @answers;

$screen->("\cC");
eventually { $screen->(); !left($played) } 'nothing left after Ctrl-C';
waitpid $pid, 0;
is($?, 0, 'no failure') or diag $screen->();
unlike($screen->(), qr/^[^\r\n]{81}/m, '80 columns');

done_testing();

###############################################################################

sub command {
    my ($port) = @_;
    return "$FindBin::Bin/../run/fleet.pl", "--port=$port", '--seconds=2';
}

# So many, with two more for each.
sub free_ports {
    my ($n) = @_;
    my (@ports, %taken);
    while (@ports < $n) {
        my $port = Dsem::Test->free_port;
        my @three = map { $port + $_ } 0, 1, 10;
        next if 3 != grep {
            !$taken{$_} && IO::Socket::INET->new(LocalAddr => '127.0.0.1',
                Listen => 1, LocalPort => $_, ReuseAddr => 1)
        } @three;
        push @ports, $port;
        @taken{@three} = (1) x 3;
    }
    return @ports;
}

# What the README shows of it, with any numbers.
sub quoted {
    my $text = Fleet::Conf::read_text("$Dsem::Test::ROOT/README.md");
    my ($first) = $text =~ /^((?:    .*\n)+    The limit held.*\n)/m;
    my ($second) = $text =~ /^((?:    .*\n)+.* of the best fixed limit\.\n)/m;
    return map {
        my $words = join ' +', map { quotemeta =~ s/\d+/\\d+/gr } split ' ';
        qr/^ *$words$/m;
    } split /\n/, $first . $second;
}

# In a session of its own, as a shell has it. Types what it is given, and
# returns all that was shown.
sub on_terminal {
    my (@argv) = @_;
    my $pty = IO::Pty->new;
    my $pid = fork // die "fork: $!";
    if (!$pid) {
        $pty->make_slave_controlling_terminal;
        POSIX::dup2(fileno $pty->slave, $_) for 0 .. 2;
        exec @argv or POSIX::_exit(127);
    }
    $pty->close_slave;
    my ($ready, $shown) = (IO::Select->new($pty), '');
    return $pid, sub {
        syswrite $pty, $_ for @_;
        1 while $ready->can_read(0)
            && sysread $pty, $shown, 4096, length $shown;
        return $shown;
    };
}

# Command lines of processes of the fleet with this port.
sub left {
    my ($port) = @_;
    return grep { m{--port=$port\b|build/run/$port/} }
        map { slurp("/proc/$_/cmdline") =~ tr/\0/ /r }
        grep { $_ != $$ } map { m{/proc/(\d+)$} } glob '/proc/[0-9]*';
}

sub slurp {
    my ($path) = @_;
    open my $fh, '<', $path or return '';
    local $/;
    return scalar(<$fh>) // '';
}
