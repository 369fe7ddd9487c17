#!/usr/bin/perl

# make run on a terminal stays until Ctrl-C, with the page and what it prints to
# try. It leaves nothing behind, however it ends. A machine that seems to be
# busy is not judged, unless the limit was exceeded.

###############################################################################

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/../lib", "$FindBin::Bin/../run";

use IO::Select;

use Dsem::Test;
use Fleet::Conf;
use Fleet::Trial qw(busy_metronome free_ports left on_terminal
    without_terminal);

###############################################################################

# seconds without a sign of progress on a terminal, at most
use constant SILENT => 1.5;

my $t = Dsem::Test->new;

my ($played, $exceeded, @ended) = free_ports(6);
my $limit = Fleet::Conf::semaphore(
    Fleet::Conf::read_text("$FindBin::Bin/../../conf.example"), 'reports')
    ->{limit};

# on a machine that seems to be busy: one on a terminal, and one whose limit is
# raised by the page

my ($silent, $seen, $last) = (0, '', now);
my ($pid, $screen, $other, $said);
{
    local $ENV{DSEM_METRONOME} = busy_metronome($t->dir . '/busy');
    ($pid, $screen) = on_terminal($played, 0.5);
    ($other, $said) = without_terminal($exceeded, 2);
}

# in its first act

my ($url) = lines($said, qr/^Open (\S+)/m);
is($t->client->get("${url}semaphores/reports", -method => 'PATCH',
    -body => '{"limit": 12}', 'Content-Type' => 'application/json')->status,
    200, 'limit raised');

my $failed = '';
($silent, $last) = (0, now);
my @fleet = do {
    # with all that a fleet starts
    delete local $ENV{DSEM_METRONOME};
    map {
        my ($pid, $from) = without_terminal($_, 2);
        { port => $_, pid => $pid, from => $from }
    } @ended;
};

# ended from outside, under load

for my $signal (qw(INT TERM HUP KILL)) {
    my ($port, $pid, $from) = @{ shift @fleet }{qw(port pid from)};
    lines($from, qr/answered/);
    cmp_ok(scalar left($port), '>', 5, 'a fleet is up');
    kill $signal, $pid;
    # soon: it would end by itself
    eventually { watch(); !left($port) } "nothing left after SIG$signal", 8;
    close $from;
}

# the terminal: up until Ctrl-C

eventually { watch() =~ /The fleet is up.*at once/s }
    'a fleet to play with', 120 or kill 'TERM', $pid;
cmp_ok($silent, '<', SILENT, 'progress at all times');
like($screen->(), qr/\AA demonstration .* about \d+ s\.\r\n.*\r\nOpen http:/,
    'its time and its page first');
my $one = plain() =~ s/\r?\n +/ /gr;
like($one, qr/^This\ machine\ is\ too\ busy\ to\ judge\ \([^)]+\);
    \ the\ limit\ held:\ \d+\ of\ $limit\.\r?$/mx, 'too busy to judge');
like($one, qr/^This machine is too busy to judge the shares \([^)]+\); the /m,
    'in both acts');
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
open my $curl, '-|', $try =~ tr/\r//dr or die "fork: $!";
my @answers;
while (<$curl>) {
    my ($status, $seconds) = split;
    push @answers, [$status, took(now - $seconds)];
}
close $curl;
is_deeply([ map { $_->[0] } @answers ], [(200) x 8], 'answers without Redis')
    or diag $try;
cmp_ok($_->[1], '<', 0.7, 'an answer at once') for @answers;

$screen->("\cC");
eventually { $screen->(); !left($played) } 'nothing left after Ctrl-C';
waitpid $pid, 0;
is($?, 0, 'busy: no failure') or diag $screen->();
unlike(plain(), qr/^[^\r\n]{81}/m, '80 columns');

# the raised limit

$failed .= $_ while <$said>;
close $said;
is($? >> 8, 1, 'busy: an exceeded limit fails') or diag $failed;
like($failed, qr/^The limit failed: the backend served 1[12] at once\.$/m,
    'busy: an exceeded limit said');
eventually { !left($exceeded) } 'nothing left after a failure';

done_testing();

###############################################################################

# Reads the terminal. Notes how long it showed nothing new.
sub watch {
    return $seen if $screen->() eq $seen;
    $silent = took($last) if took($last) > $silent;
    ($seen, $last) = ($screen->(), now);
    return $seen;
}

# What was shown, without colours.
sub plain { $screen->() =~ s/\e\[[\d;]*m//gr }

# Reads lines until one matches, which is kept, and reads the terminal too.
sub lines {
    my ($from, $re) = @_;
    my ($ready, $text) = (IO::Select->new($from), '');
    while ($text !~ /$re.*\n/m) {
        watch();
        next unless $ready->can_read(0.05);
        sysread $from, $text, 4096, length $text or die "ended: $text";
    }
    $text =~ /$re/m;
    return $1;
}
