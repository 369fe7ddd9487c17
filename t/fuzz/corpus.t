#!/usr/bin/perl

# The corpus of the fuzzers (t/fuzz/README.md): each file is given to its
# target once, in the process of the real nginx, with AddressSanitizer in the
# module. No file ends the process, and every promise of a target holds.

use lib 't/lib';
use Cwd qw(abs_path);
use Dsem::Test;
use Dsem::Part;
use FindBin;

my $root = abs_path("$FindBin::Bin/../..");
my $dir = part_dir('replay');
my $corpus = "$root/t/fuzz/corpus";

my @command = ('gcc', part_flags(), qw(-DFUZZ_REPLAY -O0 -fPIC -shared),
    '-Wl,-Bsymbolic', '-Wl,-z,lazy',
    '-fsanitize=address,undefined',
    '-fno-sanitize=nonnull-attribute,alignment',
    qw(-Dngx_palloc=replay_palloc -Dngx_pnalloc=replay_palloc
    -Dngx_pcalloc=replay_pcalloc),
    # the functions of the module find no other copy of hiredis
    '-Wl,--exclude-libs,libhiredis.a',
    "-I$root/t/fuzz", part_includes(map { "src/http$_" } '', qw(/modules /v2
        /v3)),
    "$root/t/fuzz/replay.c", part_nginx() . '/objs/ngx_http_dsem_scripts.c',
    '-l:libhiredis.a', '-ldl', '-o', "$dir/replay.so");
is system(@command), 0, 'built' or BAIL_OUT 'replay.c';

chomp(my $asan = `gcc -print-file-name=libasan.so`);
chomp(my $ubsan = `gcc -print-file-name=libubsan.so`);

my %env = (
    LD_PRELOAD => join(' ', map({ abs_path($_) } $asan, $ubsan),
        "$dir/replay.so"),
    FUZZ_CORPUS => $corpus,
    # pools of nginx are freed, the modules of a process are not
    ASAN_OPTIONS => 'detect_leaks=0:abort_on_error=1:detect_odr_violation=0',
    UBSAN_OPTIONS => 'print_stacktrace=1',
);
$env{DSEM_MODULE} = $ENV{DSEM_MODULE} // "$root/build/ngx_http_dsem_module.so"
    if !$ENV{DSEM_STATIC_NGINX};

my $pid = open(my $out, '-|') // die "fork: $!";
if (!$pid) {
    chdir $dir or die "$dir: $!";
    open STDERR, '>', "$dir/err" or die "err: $!";
    delete $ENV{DSEM_MODULE};
    # a target that hangs has failed
    alarm 60;
    exec 'env', (map { "$_=$env{$_}" } sort keys %env),
        $ENV{DSEM_NGINX} // 'nginx', '-v' or die "nginx: $!";
}

my (%files, $last);
while (<$out>) {
    $last = $1 if /^file (.*)/;
    $files{$1} = $2 if /^target (\w+): (\d+) files/;
}
close $out;

my $err = do {
    open my $fh, '<', "$dir/err" or die "err: $!";
    local $/;
    <$fh> // '';
};

is $?, 0, 'process survived' or diag 'file: ', $last // 'none', "\n", $err;

for my $target (map { m{([^/]+)\.c$} } glob "$root/t/fuzz/target/*.c") {
    my @there = glob "$corpus/$target/*";
    is $files{$target}, scalar @there, "$target: each file read";
    cmp_ok scalar @there, '<=', 100, "$target: files are few";
}

done_testing();
