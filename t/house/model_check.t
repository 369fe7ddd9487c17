#!/usr/bin/perl

# The model of the protocol, some of its small configurations: they hold, and
# without a mechanism they are violated. The long profile has all of the small
# ones, "make model" verifies every one.

use warnings;
use strict;

use Test::More;

use FindBin;

plan skip_all => 'spin is not there, make model installs it'
    unless grep { -x "$_/spin" } split /:/, $ENV{PATH};

# compiling is most of the time
my @names = $ENV{DSEM_LONG} ? ()
    : qw(quiet fair-two pool NO_EPOCHS NO_CHECK NO_CHARGE NO_SERVERS);
my $said = qx($^X $FindBin::Bin/../model/check short @names 2>&1);

is $?, 0, 'all as expected' or diag $said;
like $said, qr/^quiet .* holds /m, 'the protocol holds';
like $said, qr/^fair-two .* holds /m, 'the fair queue holds';
like $said, qr/^pool .* holds /m, 'a pool holds';
like $said, qr/^NO_EPOCHS .* assertion /m, 'a removed mechanism is noticed';
like $said, qr/^NO_CHECK .* cycle /m, 'so is one that only liveness needs';

like $said, qr/^NO_CHARGE .* assertion /m, 'one of the fair queue, too';
like $said, qr/^NO_SERVERS .* assertion /m, 'and one of a pool';

done_testing;
