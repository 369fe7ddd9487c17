#!/usr/bin/perl

# A lower limit of another configuration stays in force while the number found is
# higher, and an order overrides both. Meanwhile nothing is learned.

use lib 't/lib';
use Dsem::Auto;
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;
my $state = $scripts->state;
my $redis = $scripts->redis;
my $one = $scripts->session('one')->configured('a', { api => '10=1-1000' });
my $two = $scripts->session('two')->configured('b', { api => 2 });

# a plain limit below the number found
my %arg = (literal => 1, queue => 0);
is $one->adjust('api')->{limit}, 2, 'lower limit in force';
my $auto = Dsem::Auto->new($scripts, 'api', [ $one ]);
my $reply = $auto->run(20);
is "@$reply{qw/found limit reason/}", '2 2 bound', 'not above it';
is field(), '2 b;2=1-1000 a;', 'both in the field';
is_deeply [ map { $_->ask('api', 1, %arg) } $one, $two ],
    [ qw/granted granted/ ], 'two admitted';
is $one->ask('api', 2, %arg), 'refused', 'no third one';
is_deeply $one->inspect([ 'api' ])->{semaphores}[0]{asks}, [],
    'no other limit shown';

# the plain limit leaves: found, and from then on only lowered by another one
$two->bye;
$one->beat;
$auto->run(20);
cmp_ok $auto->found, '>', 20, 'raised without it';
my $three = $scripts->session('three')->configured('c', { api => 3 });
is $one->sync('api', literal => 1)->{limit}, 3, 'lower limit, at once';
my $found = $auto->run(5)->{found};
is $auto->found, 3, 'and stays';
is $redis->cmd('HGET', $state->key, 'limit:api'), "3 c;$found=1-1000 a;",
    'and the number';
is $three->sync('api', literal => 1, limit => 3)->{limit}, 3, 'for itself';

# a plain limit above the number found
$three->bye;
$three = $scripts->session('three')->configured('d', { api => 5000 });
$one->beat;
$auto->run(1);
cmp_ok $three->sync('api', literal => 1, limit => 5000)->{limit}, '<', 5000,
    'number found is lower: in force';
$auto->set(latency => sub { 50 * ($_[0] > 20 ? $_[0] / 20 : 1) })->run(90);
my $median = (sort { $a <=> $b } ($auto->trace)[-31 .. -1])[15];
cmp_ok abs($median - 20), '<=', 4, 'and found';

# a plain limit that would do, and a backend that gets worse
my $limit = $scripts->session('limit')->configured('f', { api => 18 });
$auto->run(20);
is $one->sync('api', literal => 1)->{limit}, 18, 'plain limit just below';
$auto->set(latency => sub { 50 * ($_[0] > 5 ? $_[0] / 5 : 1) })->run(30);
$median = (sort { $a <=> $b } ($auto->trace)[-31 .. -1])[15];
cmp_ok $median, '<=', 8, 'found below it';
$limit->bye;
$one->beat;
$auto->set(latency => sub { 50 * ($_[0] > 20 ? $_[0] / 20 : 1) })->run(60);
$median = (sort { $a <=> $b } ($auto->trace)[-31 .. -1])[15];

# a plain limit below the minimum
my $five = $scripts->session('five')->configured('9', { five => '8=5-30' });
$scripts->session('less')->configured('8', { five => 3 });
my $less = Dsem::Auto->new($scripts, 'five', [ $five ]);
$reply = $less->run(10);
is "@$reply{qw/found limit reason/}", '8 3 unused', 'below: nothing found';

# an order
$found = $auto->found;
$one->order('api', 100, 0);
$reply = $auto->run(5);
is "@$reply{qw/limit reason/}", '100 unused', 'order in force';
is +($auto->trace)[-1], ($auto->trace)[-30], 'nothing found';
is $one->sync('api', literal => 1)->{limit}, 100, 'for syncs';
$one->order('api', $auto->found, 0);
$auto->run(1);
$found = $auto->found;
$reply = $auto->run(40);
is "@$reply{qw/found limit reason/}", "$found $found unused",
    'an order of the number found: no other';
is scalar(grep { $_ != $found } ($auto->trace)[-300 .. -1]), 0,
    'and nothing is probed';
$one->order('api', '-', 1);
$auto->run(20);
is scalar(grep { $_ != $found } ($auto->trace)[-195 .. -1]), 0,
    'paused: nothing found';
$one->order('api', '-', 0);
cmp_ok abs($one->adjust('api')->{limit} - $median), '<=', 6,
    'no order: number found';

# a session without a literal limit: that of the semaphore, never above others
my $four = $scripts->session('four')->enter;
my $plain = $scripts->session('plain')->configured('e', { both => 4 });
$plain->ask('both', 1, limit => 4, literal => 1);
my $other = Dsem::Auto->new($scripts, 'both', [ $four ]);
$other->run(20);
is $four->sync('both', may_set => 0)->{limit}, 4, 'plain limit kept';

$scripts->done;

sub field { return $redis->cmd('HGET', $state->key, 'limit:api') }
