#!/usr/bin/perl

# Many limits are stated in parts, in order, by one session or several at once;
# they are withdrawn part by part, and a configuration may return meanwhile.

use lib 't/lib';
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;
my $watch = $scripts->session('watch')->enter;
my %limits = map { ("n$_" => 3) } 10 .. 99;
my @parts = ([ qw/n1 3 n2 3/ ], [ qw/n3 3 n4 3/ ], [ qw/n5 3/ ]);

# the first session dies after two of three parts, the next one states them all
my $one = $scripts->session('one');
is $one->hello(config => 'c')->{unknown}, 1, 'first session states them';
is $one->configure('c', $_, 3, @{ $parts[$_] })->{status}, 'ok', "part $_"
    for 0, 1;
is in_force('n1', 9), 3, 'a part counts at once';
is in_force('n5', 9), 9, 'not stated yet';
my $two = $scripts->session('two');
is $two->hello(config => 'c')->{unknown}, 1, 'incomplete: stated again';
is $two->configure('c', 2, 3, @{ $parts[2] })->{status}, 'ok', 'the last part';
is $two->configure('c', $_, 3, @{ $parts[$_] })->{status}, 'ok',
    "part $_ once more" for 0, 1;
is in_force('n5', 9), 3, 'complete';
my $three = $scripts->session('three');
is $three->hello(config => 'c')->{unknown}, 0, 'complete: known';
is $one->configure('c', 4, 5, n6 => 3)->{status}, 'resync', 'a part is missing';

# withdrawn in steps, some parts by each call
$_->bye for $one, $two;
is in_force('n5', 9), 3, 'one session left';
$three->bye;
is in_force($_, 9), 9, "$_ withdrawn" for qw/n1 n3 n5/;
my $ten = $scripts->session('ten')->configured('10', \%limits, 1);
$ten->bye;
is in_force('n99', 9), 9, 'last part withdrawn';
is in_force('n10', 9), 3, 'the first one not yet';
$watch->beat;
is in_force('n45', 9), 9, 'more by a beat';
is in_force('n10', 9), 3, 'the first one not even now';

# it returns: only what is missing is stated again
my $four = $scripts->session('four');
is $four->hello(config => '10')->{unknown}, 1, 'returned';
is in_force('n10', 9), 3, 'no more is withdrawn';
$watch->beat for 1 .. 3;
is in_force('n10', 9), 3, 'nor by a beat';
$four->state_limits('10', \%limits, 1);
is in_force($_, 9), 3, "$_ stated again" for qw/n10 n45 n99/;
is $scripts->session('five')->hello(config => '10')->{unknown}, 0, 'complete';

# a name that two parts have
$scripts->session('same')->configured('23', { n1 => 3 });
my $twice = $scripts->session('twice');
$twice->hello(config => '22');
is $twice->configure('22', $_, 2, n1 => 3)->{status}, 'ok', "name in part $_"
    for 0, 1;
is_deeply [ $scripts->state->limits('n1') ], [ [ 3, '23', '22' ] ],
    'counted once';
$twice->bye;
is_deeply [ $scripts->state->limits('n1') ], [ [ 3, '23' ] ], 'both withdrawn';

# a large one
my $large = $scripts->session('large');
%limits = map { (sprintf('name%05d', $_) => $_) } 1 .. 1000;
$large->configured('1a', \%limits);
is in_force('name01000', 5000), 1000, 'the last of many';
is in_force('name00001', 5000), 1, 'the first of many';
$large->bye;
$watch->beat for 1 .. 8;
is in_force($_, 5000), 5000, "$_ withdrawn" for qw/name00001 name01000/;
is scalar(grep { /name0/ } $scripts->state->limit_fields), 0, 'nothing left';

$scripts->done;

sub in_force {
    my ($name, $own) = @_;
    return $watch->sync($name, limit => $own, literal => 1)->{limit};
}
