#!/usr/bin/perl

# One of six nodes fails all of its requests, whatever the limit: the limit is
# found by the others. Its samples come one after the other, so a judgement needs
# those of all sessions.

use lib 't/lib';
use Dsem::Auto;
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;
my @sessions = map { $scripts->session("n$_")->configured('a',
    { api => '10=1-1000' }) } 0 .. 5;

# requests that fail have no time by which the limit is seen to be reached
my $auto = Dsem::Auto->new($scripts, 'api', \@sessions, peak => sub { $_[0] },
    latency => sub { 50 * ($_[0] > 20 ? $_[0] / 20 : 1) },
    errors => sub { $_[1] == 0 ? 1 : 0 });
$auto->run(60);
my @trace = $auto->trace;
my ($mean, $last) = (0, 400);
$mean += $_ / $last for @trace[-$last .. -1];
cmp_ok abs($mean - 20), '<=', 6, 'the limit that the others need'
    or diag $mean;
