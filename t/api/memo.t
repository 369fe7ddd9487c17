#!/usr/bin/perl

# What the workers of a node share about limits, without nginx (memo.c): two of
# them log and remember things at one time.

use lib 't/lib';
use Dsem::Test;
use Dsem::Part;

part_tests('memo');

done_testing();
