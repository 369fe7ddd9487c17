#!/usr/bin/perl

# A raised limit grants permits to tickets that wait, and a lowered one recalls
# idle permits and drains, in the step that moves it.

use lib 't/lib';
use Dsem::Auto;
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;
my $state = $scripts->state;
my ($one, $two, $three) = map { $scripts->session($_)->listen }
    qw/one two three/;
$_->configured('a', { api => '4=2-8', idle => '6=1-8', ended => '2=1-8' })
    for $one, $two, $three;
my %arg = (literal => 1, queue => 20, keep => 1);

# of a backend that does not mind: up to the maximum
$two->ask('api', $_, %arg, keep => 0) for 1 .. 5;
$three->ask('api', $_, %arg, keep => 0) for 1 .. 5;
is $state->counts('api'), '4 6', 'four of ten in use';
my $auto = Dsem::Auto->new($scripts, 'api', [ $one ], beats => [ $one, $two, $three ]);
ok $auto->until(sub { $_[0]{found} > 4 }, 30), 'raised';
my $found = $auto->found;
is $state->held('api'), $found, 'granted at once';
is $state->figure('api', 'limit'), $found, 'limit of the semaphore';
my @granted = map { /^grant api 1 \d+ \d+ (.*)/ ? split ' ', $1 : () }
    map { $_->messages } $two, $three;
is @granted, $found - 4, 'their sessions notified';
$auto->run(10);
is $state->counts('api'), '8 2', 'up to the maximum';

# lowered: nobody loses a permit
$auto->set(latency => sub { 40 * $_[0] });
$auto->until(sub { $_[0]{found} <= 3 }, 30);
is $state->counts('api'), '8 2', 'lowered: count kept';
$found = $auto->found;
my $reply = $two->sync('api', literal => 1, release => 4);
is_deeply [ $reply->{granted}, $reply->{in_use} ], [ [], 4 ], 'drains';
$three->sync('api', literal => 1, release => 3);
is $state->held('api'), $found, 'granted below the limit';

# idle permits
$two->sync('idle', %arg, ask => [ map { [ $_ ] } 1 .. 4 ]);
$three->sync('idle', %arg, ask => [ map { [ $_ ] } 1, 2 ]);
$_->messages for $one, $two, $three;
my $idle = Dsem::Auto->new($scripts, 'idle', [ $one ],
    beats => [ $one, $two, $three ]);
$idle->until(sub { $_[0]{found} < 6 }, 30);
is_deeply [ grep { !/^beat/ } map { $_->messages } $two, $three ],
    [ 'recall idle 1' ],
    'lowered: largest holder recalled';

# permits of a session that has ended
$two->sync('ended', literal => 1, ask => [ [1], [2] ]);
$three->ask('ended', 1, literal => 1, queue => 5);
$one->bye($two);
$one->messages;
$one->adjust('ended');
is_deeply [ $three->messages ], [ 'grant ended 1 1 2 1' ], 'head notified';
is_deeply [ $one->messages ], [ 'reclaimed ended 1 2' ], 'permits told';

# more than one call may look at: again soon
$three->sync('ended', release => 1);
my $crowd = $scripts->session('crowd')->enter;
$crowd->sync('ended', literal => 1, ask => [ [1], [2] ]);
my @gone = map { $scripts->session("gone$_")->enter } 1 .. 80;
$_->ask('ended', 1, literal => 1, queue => 1000) for @gone;
$_->bye for @gone;
is $one->adjust('ended')->{next}, 10, 'work left: again at once';
