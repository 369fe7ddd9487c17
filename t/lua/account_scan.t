#!/usr/bin/perl

# Accounts are scanned once for each ended session, and only when a request
# cannot be granted.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Dsem::Scripts;
use Dsem::Test;

my $scripts = Dsem::Scripts->new(Dsem::Test->new);
my $one = $scripts->session('one')->enter;
my $two = $scripts->session('two')->enter;
my $redis = $scripts->redis;

sub scans {
    my ($ask) = @_;
    $redis->cmd('CONFIG', 'RESETSTAT');
    $ask->();
    my ($calls) = $redis->cmd('INFO', 'commandstats')
        =~ /cmdstat_hgetall:calls=(\d+)/;
    return $calls // 0;
}

my $ticket = 100;
sub ask {
    my ($name, %arg) = @_;
    return scans(sub { $one->ask($name, ++$ticket, limit => 3, %arg) });
}

$two->ask('api', 1, limit => 3);
$one->bye($scripts->session('stranger'));
is ask('api'), 0, 'no scan with free permits';
is ask('api', weight => 2), 1, 'heavy ask scans once';
is ask('api', weight => 2), 0, 'no second scan';
is scans(sub { $one->sync('api', check => [ [$ticket, 2] ]) }), 0,
    'no scan at a check';

# the head cannot be granted
$one->bye($scripts->session('stranger'));
is scans(sub { $one->sync('api', check => [ [$ticket, 2] ]) }), 1,
    'one scan at next check';
is scans(sub { $one->sync('api', check => [ [$ticket, 2] ]) }), 0,
    'no further scan';

# the released permit goes to the head, other tickets still wait
$one->bye($scripts->session('stranger'));
is scans(sub { $one->sync('api', release => 1) }), 1,
    'one scan while waiting';
$one->bye($scripts->session('stranger'));
is scans(sub { $one->sync('else') }), 0, 'no scan for empty session';

# a scan sums wrong counts anew
$scripts->state->set_figure('api', held => 40);
$one->bye($scripts->session('stranger'));
$one->sync('api');
is $scripts->state->held('api'), 3, 'sum rebuilt';
is $scripts->state->figures('api')->{seen}, $scripts->meta('ended'),
    'all accounts scanned';

$scripts->done;
