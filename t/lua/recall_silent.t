#!/usr/bin/perl

# Sessions that hold most permits have stopped. The message that recalls one of
# them is never obeyed: the next check recalls all that are silent, and the live
# session whose permit is idle with them, but no other live one.

use lib 't/lib';
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;
my $state = $scripts->state;
my $asks = $scripts->session('asks')->enter;
my @stopped = map { $scripts->session("stopped$_")->enter->listen } 1 .. 6;
my @live = map { $scripts->session("live$_")->enter->listen } 1 .. 3;
my %arg = (limit => 15, queue => 9);
$_->sync('api', %arg, keep => 1, ask => [ [1], [2] ]) for @stopped;
$_->sync('api', %arg, keep => 1, ask => [ [1] ]) for @live;

sub recalled {
    return scalar grep { grep { /^recall / } $_->messages } @_;
}
sub check { return $asks->sync('api', %arg, check => [ [1] ]) }

$scripts->pass(1500, $asks, @live);
is $asks->ask('api', 1, %arg), 'queued', 'a ticket waits';
is recalled(@stopped), 1, 'the largest holder recalled';
is recalled(@live), 0, 'a live one not yet';

# until two heartbeats are missed one more in each check
check();
is recalled(@stopped), 2, 'first check: another one, and the first again';
is recalled(@live), 0, 'still no live one';

$scripts->pass(1500, $asks, @live);
my $calls = $scripts->calls(\&check);
is recalled(@stopped), 6, 'silent: all recalled';
is recalled(@live), 1, 'and one live session';
is join(' ', @{ $state->figures('api') }{qw(active recalled)}), '2 7',
    'others may keep their permits';
cmp_ok $calls->{all} - $calls->{publish}, '<', 12, 'few commands';

my ($idle) = grep {
    ($state->account('api', $_->name)->{reuse} // 0) == 2
} @live;
$idle->sync('api', %arg, release => 1);
is $state->waiting('api'), 0, 'the ticket is served';

$scripts->done;
