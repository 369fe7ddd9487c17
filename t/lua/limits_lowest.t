#!/usr/bin/perl

# Of all live configurations the lowest literal limit of a name is in force, for
# every session. Only the configurations that have the name count.

use lib 't/lib';
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;
my $old = $scripts->session('old')->configured('20', { api => 20, web => 5 });

is in_force($old, 'api', 20), 20, 'one configuration';

# a cut counts from the first reload
my $first = $scripts->session('first')->configured('10',
    { api => 10, web => 5 });
is in_force($old, 'api', 20), 10, 'cut for others at once';
is in_force($first, 'api', 10), 10, 'cut for itself';
is in_force($old, 'web', 5), 5, 'same limit kept';

# a raise from the last
my $second = $scripts->session('second')->configured('30', { api => 30 });
is in_force($second, 'api', 30), 10, 'raise waits';
$first->bye;
is in_force($second, 'api', 30), 20, 'next lowest in force';
$old->bye;
is in_force($second, 'api', 30), 30, 'raised with the last';

# of a name that the others do not have
$second->sync('web', limit => 9);
my $third = $scripts->session('third')->configured('7', { web => 7 });
is in_force($third, 'web', 7), 7, 'only those with the name';
is in_force($second, 'api', 30), 30, 'other names unaffected';

# the order in which configurations come does not matter
my @limits = (4, 9, 2, 9, 7);
my @some = map { $scripts->session('some')->configured("a$_",
    { set => $limits[$_] }) } 0 .. $#limits;
my @seen;
while (@some) {
    push @seen, in_force($some[-1], 'set', 9);
    (shift @some)->bye;
}
is "@seen", '2 2 2 7 7', 'lowest of those left';

# the operator's order overrides them all, and a variable limit asks nobody
$scripts->order('api', 15);
is in_force($second, 'api', 30), 15, 'order overrides';
$scripts->order('api', undef);
is in_force($second, 'api', 30), 30, 'order without a limit';
$scripts->state->drop_orders;

is $second->sync('tenant', limit => 3)->{limit}, 3, 'variable limit';
$third->ask('tenant', 1, limit => 6);
is $third->{asked}{limit}, 6, "variable limit: the last ask's";

# a name that has gone with all configurations: that of the semaphore
my $leaving = $scripts->session('leaving')->configured('b', { gone => 4 });
$leaving->ask('gone', 2, limit => 4, literal => 1);
$leaving->configure('-');
is in_force($leaving, 'gone', 4), 4, 'draining: stored limit';
is in_force($leaving, 'none', 6), 6, 'draining: own limit';

# lowered below what is held: no permit is revoked, none granted
$second->ask('api', $_, limit => 30, literal => 1) for 11 .. 13;
my $cut = $scripts->session('cut')->configured('2', { api => 2 });
is $second->ask('api', 14, limit => 30, literal => 1), 'queued', 'drains';
is $second->{asked}{in_use}, 3, 'permits stay';
is_deeply $second->sync('api', literal => 1, limit => 30, release => 1)
    ->{granted}, [], 'at the limit';
is_deeply $second->sync('api', literal => 1, limit => 30, release => 1)
    ->{granted}, [14], 'below the limit';

$scripts->done;

sub in_force {
    my ($session, $name, $own) = @_;
    return $session->sync($name, limit => $own, literal => 1)->{limit};
}
