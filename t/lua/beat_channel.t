#!/usr/bin/perl

# A beat proves that the subscription works: it is published to the session's
# own channel, and to no other.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Dsem::Scripts;
use Dsem::Test;

my $scripts = Dsem::Scripts->new(Dsem::Test->new);
my $one = $scripts->session('one')->enter->listen;
my $two = $scripts->session('two')->enter->listen;

$one->beat;
is_deeply [ $one->messages ], ["beat $one->{number}"], 'own beat';
is_deeply [ $two->messages ], [], 'no beat of others';

$one->{epoch} = 7;
$one->beat;
is_deeply [ $one->messages ], [], 'refused beat silent';

$scripts->done;
