#!/usr/bin/perl

# What the workers of a node share about limits, without nginx (memo.c): two of
# them log and remember things at one time.

use warnings;
use strict;

use Test::More;

use Cwd qw(abs_path);
use File::Path qw(make_path);
use FindBin;

my $root = abs_path("$FindBin::Bin/../..");
my $dir = "$root/build/memo";

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
    "$FindBin::Bin/memo.c", '-o', "$dir/memo");
is system(@command), 0, 'built' or BAIL_OUT 'memo.c';

open my $out, '-|', "$dir/memo" or die "memo: $!";
while (<$out>) {
    if (/^(not )?ok (.*)/) {
        ok !$1, $2;
    } else {
        diag $_;
    }
}
close $out;
is $?, 0, 'ended well';

done_testing();
