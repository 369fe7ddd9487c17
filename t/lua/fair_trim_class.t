#!/usr/bin/perl

# Keys of one class that are remembered do not make those of another one
# forgotten: a quiet key goes before the backlog of a noisy one, however many
# keys another class lately had.

use lib 't/lib';
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;
my $one = $scripts->session('one')->enter;
my $ticket = 0;

sub ask {
    my ($key, %arg) = @_;
    $one->ask('api', ++$ticket, queue => 2000, key => $key, %arg);
    return $one->{asked}{asked}{$ticket}{position};
}

ask('a');
ask("many$_", cost => 10_000) for 1 .. 1200;
ask('noisy', class => 1) for 1 .. 40;
$one->sync('api', release => 1, fair => 1) for 1 .. 1200;
cmp_ok $scripts->redis->cmd('ZCARD', $scripts->state->fair_key('api')), '>',
    2 * $scripts->state->waiting('api') + 1024, 'many keys remembered';

# new keys go as four before the noisy one
cmp_ok ask("quiet$_", class => 1), '<=', 1.25 * $_ + 2,
    "position of quiet key $_" for 1 .. 40;
