#!/usr/bin/perl

# make run: shows that the limit holds, that shares are fair, that a limit finds
# itself and that each server has its own, and says so in its exit status. A
# machine that was too busy for its judgement is said to be; a quiet one gets
# the judgement.

###############################################################################

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/../lib", "$FindBin::Bin/../run";

use IO::Select;
use IO::Socket::INET;

use Dsem::Test;
use Fleet::Conf;
use Fleet::Trial qw(command free_ports left quiet without_terminal);

###############################################################################

# seconds without a sign of progress, at most
use constant SILENT => 3;

my $t = Dsem::Test->new;

my ($port) = free_ports(1);
my $limit = Fleet::Conf::semaphore(
    Fleet::Conf::read_text("$FindBin::Bin/../../conf.example"), 'reports')
    ->{limit};

# to the end, without a terminal

my ($begin, $said, $silent) = (now, '', 0);
my ($pid, $out) = without_terminal($port, 1);
for (my $last = $begin; sysread $out, $said, 4096, length $said; $last = now) {
    $silent = took($last) if took($last) > $silent;
}
close $out;
my $status = $?;
my $all = took($begin);
my $quiet = quiet($begin);

is($status, 0, 'the limit held') or diag $said;

# a machine that is too busy says so, a quiet one does not

my $one = $said =~ s/\n +/ /gr;
my @busy = $one =~ /^This machine is too busy to judge( the shares)? \(/mg;
my $busy = grep { !defined } @busy;
my $busy_later = grep { defined } @busy;
ok(!@busy || !$quiet, 'a quiet machine is judged') or diag $one;
unlike($one, qr/ failed: /, 'no failure said');

# the first lines: how long it takes, and the page

my ($takes) = $said =~ /\AA demonstration .* takes about (\d+) s\.\n/;
like($said, qr/\A.*\nStarting .*\nOpen http:\/\/127\.0\.0\.1:$port\/\S+\n/,
    'page first');
cmp_ok($takes, '>', 10, 'time said first');
cmp_ok(abs($all - $takes), '<', $takes / 3, 'it takes about this time')
    if $quiet;
cmp_ok($silent, '<', SILENT, 'progress at all times');
like($said, qr/^ +\d+ s +\d+\/s answered/m, 'progress shown');
like($said, qr/^ +node a +node b +fleet$/m, 'table headed');
like($said, qr/^  requests +[1-9]\d* +[1-9]\d* +[1-9]\d*$/m,
    'requests counted');
like($said, qr/^  200, answered +[1-9]\d* +[1-9]\d* +[1-9]\d*$/m,
    'answers counted');
like($said, qr/^  503, rejected +\d+ +\d+ +[1-9]\d*$/m,
    'rejections counted');
like($said, qr/^  wait, longest(?: +[0-9]\.[0-9]+ s){3}$/m, 'waits measured');
my ($peak) = $said =~ /^  peak at the backend +(\d+) +of $limit$/m;
cmp_ok($peak // 99, $busy ? '<=' : '==', $limit, 'peak equals the limit');
my ($goodput, $part, $unlimited) = $said =~ m{^\ \ goodput\ (\d+)/s,
    \ (\d+)\ %\ of\ what\ this\ machine\ reaches\ without\ a\ limit
    \ \((\d+)/s\)$}mx;
cmp_ok($unlimited // -1, $busy ? '>=' : '>', 0, 'measured without a limit');
cmp_ok(abs(($part // 0) * ($unlimited // 0) / 100 - ($goodput // 0)), '<=',
    1 + ($unlimited // 0) / 100, 'goodput compared with it')
    if $unlimited || !$busy;
like($one, $busy ? qr/^This .* busy .*; the limit held: $peak of $limit\.$/m
    : qr/^The limit held: never more than $limit requests/m, 'verdict');

# the second act; that no request of a quiet tenant was rejected with "fair="
# is in the exit status

like($said, qr/^ +noisy +quiet1 +quiet2 +quiet3$/m, 'tenants headed');
for my $how ('without', 'with') {
    my ($peak, $part)
        = $said =~ /^  $how "fair=", peak (\d+) of 10\n((?:    .*\n)+)/m;
    cmp_ok($peak // 99, $busy_later ? '<=' : '==', 10,
        "peak equals the limit $how fair=");
    like($part // '', qr/^    requests(?: +[1-9]\d*){4}$/m,
        "tenants counted $how fair=");
    like($part // '', qr/^    permits in use, mean(?: +\d\.\d){4}$/m,
        "permits measured $how fair=");
}
my %rejected = map { $_ => $said =~ /^Rejected .*, $_: (\d+) of [1-9]\d*\.$/m }
    'without "fair="', 'with it';
cmp_ok($rejected{'without "fair="'} // -1, $busy_later ? '>=' : '>', 0,
    'quiet tenants rejected without fair=');
cmp_ok($rejected{'with it'} // 99, $busy_later ? '>=' : '==', 0,
    'none rejected with fair=');
my $some = $quiet ? qr/[1-9]\d*/ : qr/\d+/;
for my $line ('limit=5', 'limit=20', 'limit=100', 'limit=auto, second half') {
    like($said, qr/^\ \ \Q$line\E\ +[1-9]\d*\ +$some\/s\ +$some\ ms
        \ +\d+\.\d+\ s$/mx, "$line measured");
}
like($said, qr/^  limit=auto answers $some % of the best fixed limit\.$/m,
    'compared with fixed limits');
like($said, qr/^  Its limit:(?:  \d\.\d s: \d+){3,}$/m, 'limits by time');

# the third act; that no server of the pool had two requests is in the exit
# status, too

like($said, qr/^ +limit=4, least_conn +limit=1\/server$/m, 'servers headed');
like($said, qr/^  requests +[1-9]\d* +[1-9]\d*$/m, 'requests of each part');
my ($total, $pool)
    = $said =~ /^  came to a server that was taken +(\d+) +(\d+)$/m;
is($pool, 0, 'none at a taken server with limit=1/server');
($total, $pool) = $said =~ /^  most at one server at once +(\d+) +(\d+)$/m;
cmp_ok($total // 99, '<=', 4, 'limit of the total held');
cmp_ok($pool // 99, '<=', 1, 'limit of each server held');
like($said, qr/^With "limit=1\/server" no server had more than one request/m,
    'verdict of the third act');

unlike($said, qr/The fleet is up/, 'no invitation to play');
unlike($said, qr/^.{81}/m, '80 columns');
unlike($said, qr/[^ -~\n]/, 'plain text');
like($said, $_, "as in the README: $_") for quoted();
ok(readme() =~ /This\s+machine is too busy to judge/, 'in the README: busy');
# a child that was ended may still be on its way out
eventually { !left($port) } 'nothing left';

# ports that are taken

my @command = command($port, 2);
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

done_testing();

###############################################################################

sub readme { Fleet::Conf::read_text("$Dsem::Test::ROOT/README.md") }

# What the README shows of it, with any numbers.
sub quoted {
    my $text = readme();
    my ($first) = $text =~ /^((?:    .*\n)+    The limit held.*\n)/m;
    my ($second) = $text =~ /^((?:    .*\n)+.* of the best fixed limit\.\n)/m;
    my ($third) = $text
        =~ /^((?:    .*\n)+.*no server had more than one .*\n)/m;
    return map {
        my $words = join ' +', map { quotemeta =~ s/\d+/\\d+/gr } split ' ';
        qr/^ *$words$/m;
    } grep { !$busy || !/The limit held/ }
        split /\n/, $first . $second . $third;
}
