#!/usr/bin/perl

# A bye removes a session at once, in O(1), whatever the session holds. Its
# semaphores are not touched; the next ask for its permits finds them free.

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

$one->ask('api', $_, limit => 2) for 1 .. 4;
my @keys = $scripts->state->semaphore_keys('api');
my $before = $scripts->dump(@keys);
my $ended = $scripts->meta('ended');
$two->bye($one);
is $scripts->dump(@keys), $before, 'semaphore not touched';
is $scripts->meta('ended'), $ended + 1, 'ended counted';

is $two->ask('api', 1, limit => 2), 'granted', 'permits free';
my $reply = $two->sync('api', limit => 2);
is $reply->{in_use}, 1, 'one in use';
is $reply->{waiting}, 0, 'none waiting';

# also in a semaphore without a queue
my $three = $scripts->session('three')->enter;
$three->ask('quiet', 1, weight => 3, limit => 3);
$two->bye($three);
is $two->ask('quiet', 2, limit => 3, queue => 0), 'granted',
    'permits free without queue';
is $two->sync('quiet')->{in_use}, 1, 'only live sessions counted';

$scripts->done;
