#!/usr/bin/perl

# The operator's order overrides the limit of the asks, keeps the counts, and
# can pause: asks wait while paused, limit 0 refuses.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Dsem::Scripts;
use Dsem::Test;

my $scripts = Dsem::Scripts->new(Dsem::Test->new);
my $one = $scripts->session('one')->enter->listen;
my $two = $scripts->session('two')->enter;

$one->ask('api', 1, limit => 3);
$scripts->order('api', 1);
is $two->ask('api', 2, limit => 3), 'queued', 'ordered limit applied';
is $two->{asked}{limit}, 1, 'ordered limit reported';
is $two->{asked}{in_use}, 1, 'count kept';
is $two->ask('api', 3, limit => 3, weight => 2), 'refused',
    'heavy ask rejected';

$scripts->order('api', 2);
is_deeply $two->sync('api')->{granted}, [2], 'raised order grants';
$scripts->order('api', 0);
is $two->ask('api', 4, limit => 3), 'refused', 'limit 0 rejects';

$scripts->order('api', undef, 1);
is $two->ask('api', 5, limit => 3), 'queued', 'paused ask queued';
is $two->{asked}{limit}, 3, 'configured limit reported';
is $two->ask('api', 6, limit => 3, queue => 0), 'refused',
    'paused without place';
is $two->ask('api', 7, limit => 3, weight => 4), 'refused', 'paused heavy ask';
is $one->sync('api', release => 1)->{waiting}, 1, 'no grant by release';
is $one->sync('api', check => [ [5] ])->{in_use}, 1, 'no grant by check';

$scripts->order('api', 1, 1);
is $two->sync('api', release => 1, check => [ [5] ])->{checked}{5}, 1,
    'limit and pause combined';
$scripts->state->drop_orders;
is_deeply $two->sync('api')->{granted}, [5], 'order removed';
is $two->sync('api')->{limit}, 3, 'configured limit applied again';

$scripts->order('else', 9);
is $two->ask('api', 8, limit => 1), 'queued', 'other name unaffected';

$scripts->done;
