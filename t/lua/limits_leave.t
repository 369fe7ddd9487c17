#!/usr/bin/perl

# A configuration leaves with its last session: by bye, of a sibling too, by the
# end of the lease, or because its workers exit. Nothing of it remains. Sessions
# are told where that raises a limit, as tickets may wait for it.

use lib 't/lib';
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;
my $two = $scripts->session('two')->configured('20', { api => 20 });
my @fields = fields();

$two->listen;

my @one = map { $scripts->session('one')->configured('10', { api => 10 }) }
    1 .. 2;
is in_force(), 10, 'one of two nodes asks for less';
$one[0]->bye;
is in_force(), 10, 'one session left';
is_deeply [ $two->messages ], [], 'no limit raised';
$two->bye($one[1]);
is in_force(), 20, 'a bye by a sibling';
is_deeply [ $two->messages ], ['raised'], 'limit raised';
is_deeply [ fields() ], \@fields, 'nothing left';

# twice
$two->bye($one[1]);
is in_force(), 20, 'a second bye changes nothing';

# the end of the lease
my $lost = $scripts->session('lost')->configured('10', { api => 10 });
$scripts->pass(4000, $two);
is in_force(), 10, 'lease not over';
$two->messages;
$scripts->pass(2000, $two);
is in_force(), 20, 'lease expired';
is_deeply [ grep { !/^beat / } $two->messages ], ['raised'],
    'limit raised by a beat';
is_deeply [ fields() ], \@fields, 'nothing left of it';

# two at once
my @both = map { $scripts->session("both$_")->configured($_, { api => $_ }) }
    10, 11;
is in_force(), 10, 'the lower one of two';
$scripts->pass(6000, $two);
is in_force(), 20, 'both leases expired';
is_deeply [ fields() ], \@fields, 'nothing left of both';

# a worker that exits is there, but does not count
my $exits = $scripts->session('exits')->configured('10', { api => 10 });
is $exits->configure('-')->{status}, 'ok', 'leaves its configuration';
is in_force(), 20, 'draining worker ignored';
is_deeply [ grep { !/^beat / } $two->messages ], ['raised', 'raised'],
    'limit raised for live ones';
is $exits->configure('-')->{status}, 'ok', 'once more';
is $exits->beat->{status}, 'ok', 'still registered';
is $exits->sync('api', limit => 10, literal => 1)->{limit}, 20,
    'limit in force for it, too';
is $exits->hello(config => '-')->{unknown}, 0, 'hello of a draining worker';
is in_force(), 20, 'still ignored';

# a new epoch of the same session, with the same configuration or another one
my $again = $scripts->session('again')->configured('10', { api => 10 });
is $again->hello(config => '10')->{unknown}, 0, 'limits known';
$again->bye;
is in_force(), 20, 'counted once';
$again = $scripts->session('again')->configured('10', { api => 10 });
$again->configured('30', { api => 30 });
$two->beat;
is in_force(), 20, 'replaced by another configuration';
$again->hello(config => '-');
$two->beat;
is_deeply [ fields() ], [ sort @fields ], 'nothing left of either';

# it comes back before its limits are withdrawn
$again = $scripts->session('again')->configured('10', { api => 10 });
$again->hello(config => '-');
$again->hello(config => '10');
$again->declared;
$two->beat;
is in_force(), 10, 'configuration came back';
$again->bye;
is in_force(), 20, 'and left again';

# a higher one than the lowest, and of a name that no other has
$two->messages;
$scripts->session('high')->configured('30', { api => 30, web => 1 })->bye;
is_deeply [ $two->messages ], [], 'no limit in force raised';

# unknown sessions
my $none = $scripts->session('none');
$none->{epoch} = 1;
is $none->configure('10', 0, 1, api => 1)->{status}, 'resync',
    'unknown session';
my $other = $scripts->session('other')->enter;
is $other->configure('10', 0, 1, api => 1)->{status}, 'resync',
    'not registered with it';
is in_force(), 20, 'nothing stated';

$scripts->done;

sub in_force {
    return $two->sync('api', limit => 20, literal => 1)->{limit};
}

sub fields { return $scripts->state->limit_fields }
