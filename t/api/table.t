#!/usr/bin/perl

# The table of counters in shared memory, without nginx (table.c): a full
# table, names of one hash, rows that get another name, a history, gauges of
# killed processes; and processes that are killed and stopped while they count.
# DSEM_LONG=1: a million names.

use warnings;
use strict;

use Test::More;

use Cwd qw(abs_path);
use File::Path qw(make_path);
use FindBin;

my $root = abs_path("$FindBin::Bin/../..");
my $dir = "$root/build/table";
my ($NAMES, $KILLS) = $ENV{DSEM_LONG} ? (1_000_000, 20_000) : (20_000, 160);

make_path($dir);

# nginx has been configured in one of these
my ($nginx) = grep { -f "$_/objs/ngx_auto_headers.h" }
    map { "$root/build/$_" } qw(nginx asan/nginx nginx-source);
my $module = "$root/ngx_module";

my @command = ('gcc', qw(-std=gnu99 -D_GNU_SOURCE -g -O1 -Wall -Wextra
    -Wno-unused-parameter -Werror),
    split(' ', $ENV{DSEM_CFLAGS} // ''),
    (map { "-I$module/$_" } qw(node redis)),
    (map { "-I$nginx/$_" } qw(src/core src/event src/event/modules
        src/event/quic src/os/unix objs)),
    "$FindBin::Bin/table.c",
    (map { "$module/node/ngx_http_dsem_$_.c" }
        qw(rows cells figures)),
    '-o', "$dir/table");
is system(@command), 0, 'built' or BAIL_OUT 'table.c';

open my $out, '-|', "$dir/table", $NAMES, $KILLS or die "table: $!";
while (<$out>) {
    if (/^(not )?ok (.*)/) {
        ok !$1, $2;
    } else {
        diag $_ if !/^note/;
        note $_;
    }
}
close $out;
is $?, 0, 'ended well';

done_testing();
