#!/usr/bin/perl

# A session whose literal limit is not in force may have a message that names
# another node that asks for the lowest; where an order is in force, no node.

use lib 't/lib';
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;
my $one = $scripts->session('one')->configured('20', { api => 20 })->listen;
my $two = $scripts->session('two')->configured('10', { api => 10, web => 5 });

is_deeply [ told(0) ], [], 'no message without the flag';
is_deeply [ told(1) ], [ 'limit api 1 10 two' ], 'message with the node';

$scripts->order('api', 15);
is_deeply [ told(1) ], [ 'limit api 1 15' ], 'order in force: no node';
$scripts->order('api', 20);
is_deeply [ told(1) ], [], 'order of the own limit: none';
$scripts->order('api', undef, 1);
is_deeply [ told(1) ], [ 'limit api 1 10 two' ], 'pause only';
$scripts->state->drop_orders;

# a node of this name is named where no other asks for it
$two->bye;
my $sibling = $scripts->session('one')->configured('10', { api => 10 });
is_deeply [ told(1) ], [ 'limit api 1 10 one' ], 'same name';
my $three = $scripts->session('three')->configured('8', { api => 8 });
is_deeply [ told(1) ], [ 'limit api 1 8 three' ], 'lowest one named';

# a draining one does not ask
$three->configure('-');
is_deeply [ told(1) ], [ 'limit api 1 10 one' ], 'draining: another one';
$sibling->bye;
is_deeply [ told(1) ], [], 'agreement: none';

# in a large fleet
$scripts->session("crowd$_")->configured('20', { api => 20 }) for 1 .. 250;
$scripts->session('last')->configured('7', { api => 7 });
is_deeply [ told(1) ], [ 'limit api 1 7 last' ], 'one of many found';

# where sixteen of this name ask for it, no more are looked at
$scripts->session('one')->configured(sprintf('b%x', $_), { api => 6 })
    for 0 .. 15;
$scripts->session('hidden')->configured('b10', { api => 6 });
is_deeply [ told(1) ], [ 'limit api 1 6 one' ], 'sixteen looked at';

$scripts->done;

sub told {
    my ($flag) = @_;
    $one->sync('api', limit => 20, literal => 1, asks_node => $flag);
    return grep { $_ ne 'raised' } $one->messages;
}
