#!/usr/bin/perl

# The text that Redis sends for a display, without Redis (text.c): right texts
# are read, all others are rejected, and none reads over its end, for which
# there is AddressSanitizer. Names are bounded, and each single allocation
# fails. DSEM_LONG=1: a million texts.

use warnings;
use strict;

use Test::More;

use Cwd qw(abs_path);
use File::Path qw(make_path);
use FindBin;

my $root = abs_path("$FindBin::Bin/../..");
my $dir = "$root/build/text";
my $rounds = $ENV{DSEM_LONG} ? 1_000_000 : 5000;

make_path($dir);

# nginx has been configured in one of these
my ($nginx) = grep { -f "$_/objs/ngx_auto_headers.h" }
    map { "$root/build/$_" } qw(nginx asan/nginx nginx-source);
my $module = "$root/ngx_module";

my @command = ('gcc', qw(-std=gnu99 -D_GNU_SOURCE -g -O1 -Wall -Wextra
    -Wno-unused-parameter -Werror -fno-sanitize-recover=undefined),
    '-fsanitize=address,undefined',
    (map { "-I$module/$_" } qw(fleet node redis)),
    (map { "-I$nginx/$_" } qw(src/core src/event src/event/modules
        src/event/quic src/os/unix objs)),
    "$FindBin::Bin/text.c",
    (map { "$module/$_.c" } qw(redis/ngx_http_dsem_text
        redis/ngx_http_dsem_key)),
    '-o', "$dir/text");
is system(@command), 0, 'built' or BAIL_OUT 'text.c';

# the environment may ask a sanitizer for other things
delete @ENV{qw(ASAN_OPTIONS UBSAN_OPTIONS)};

open my $out, '-|', "$dir/text", $rounds or die "text: $!";
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
