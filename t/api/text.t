#!/usr/bin/perl

# The text that Redis sends for a display, without Redis (text.c): right texts
# are read, all others are rejected, and none reads over its end, for which
# there is AddressSanitizer. Names are bounded, and each single allocation
# fails. DSEM_LONG=1: a million texts.

use lib 't/lib';
use Dsem::Test;
use Dsem::Part;

part_tests('text', args => [$ENV{DSEM_LONG} ? 1_000_000 : 5000],
    flags => ['-fsanitize=address,undefined'],
    sources => [map { "redis/ngx_http_dsem_$_.c" } qw(text key)]);

done_testing();
