package Dsem::Part;

# A part of the module in a program of its own, without nginx: compiled with the
# headers of the nginx that was configured last, into a directory of build/.
#
#     part_tests('text', sources => ['redis/ngx_http_dsem_text.c'],
#         flags => ['-fsanitize=address'], args => [1000]);
#
# compiles text.c, which is beside the test, with sources, of ngx_module/, and
# counts each line "ok name" or "not ok name" of the program as a test; other
# lines are shown, those that begin with "note" only with "prove -v". For other
# programs: part_dir($name) is a directory of theirs, part_flags() are the flags
# for the dialect and for warnings, part_includes(@dirs) those for headers, with
# @dirs of nginx beside the usual ones; part_nginx() is where it was configured.

use strict;
use warnings;

use Cwd qw(abs_path);
use Exporter 'import';
use File::Path qw(make_path);
use FindBin;
use Test::More;

our @EXPORT = qw(part_dir part_flags part_includes part_nginx part_tests);

my $root = abs_path("$FindBin::Bin/../..");

sub part_dir {
    my ($name) = @_;
    make_path("$root/build/$name");
    return "$root/build/$name";
}

sub part_flags {
    return qw(-std=gnu99 -D_GNU_SOURCE -g -Wall -Wextra -Wno-unused-parameter
        -Werror -fno-sanitize-recover=undefined);
}

sub part_nginx {
    my ($nginx) = grep { -f "$_/objs/ngx_auto_headers.h" }
        map { "$root/build/$_" } qw(nginx asan/nginx nginx-source);
    return $nginx;
}

sub part_includes {
    my (@dirs) = @_;
    my $nginx = part_nginx();
    return map { "-I$_" } grep({ -d } "$root/ngx_module",
        glob "$root/ngx_module/*"), map { "$nginx/$_" } qw(src/core src/event
        src/event/modules src/event/quic src/os/unix objs), @dirs;
}

sub part_tests {
    my ($name, %arg) = @_;
    my $program = part_dir($name) . "/$name";
    is system('gcc', '-O1', part_flags(), @{ $arg{flags} // [] },
        split(' ', $ENV{DSEM_CFLAGS} // ''), part_includes(),
        "$FindBin::Bin/$name.c",
        map({ "$root/ngx_module/$_" } @{ $arg{sources} // [] }),
        '-o', $program), 0, 'built' or BAIL_OUT "$name.c";

    # the environment may ask a sanitizer for other things
    delete local @ENV{qw(ASAN_OPTIONS UBSAN_OPTIONS)};

    open my $out, '-|', $program, @{ $arg{args} // [] } or die "$name: $!";
    while (<$out>) {
        if (/^(not )?ok (.*)/) {
            ok !$1, $2;
        } else {
            diag $_ if !/^note/;
            note $_;
        }
    }
    close $out;
    return is $?, 0, 'ended well';
}

1;
