#!/usr/bin/perl

# The table of counters in shared memory, without nginx (table.c): a full
# table, names of one hash, rows that get another name, a history, gauges of
# killed processes; and processes that are killed and stopped while they count.
# DSEM_LONG=1: a million names.

use lib 't/lib';
use Dsem::Test;
use Dsem::Part;

my ($names, $kills) = $ENV{DSEM_LONG} ? (1_000_000, 20_000) : (20_000, 160);

part_tests('table', args => [$names, $kills],
    sources => [map { "node/ngx_http_dsem_$_.c" } qw(rows cells figures)]);

done_testing();
