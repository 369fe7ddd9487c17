#!/usr/bin/perl

# A hostile Redis, and no memory: the guard and hiredis, in a program of their
# own with AddressSanitizer (t/fuzz), read replies that are wrong in every way.
# The process survives, each command is called back once, all memory is free
# again. Without the guard the same replies abort the process. Then each single
# allocation fails: only the connection is lost, but for the allocations that
# hiredis itself does not survive. DSEM_LONG=1: 150,000 rounds.

use lib 't/lib';
use Cwd qw(abs_path);
use Dsem::Test;
use Dsem::Part;
use FindBin;

my $root = abs_path("$FindBin::Bin/../..");
my $dir = part_dir('fuzz');
my $rounds = $ENV{DSEM_LONG} ? 50_000 : 1000;
my @SEEDS = 1 .. 3;

# step and site of allocations that hiredis does not survive, by major version
my %FATAL = (
    0 => [
        # hi_malloc() and hi_strdup() abort
        qr/^(?:connect|close|close subscription): hi_(?:malloc|strdup) < /,
        # after a write the buffer is made anew
        qr/^\w+: sdsnewlen < (?:sdsempty < )?redisBufferWrite < /,
        qr/^subscribe: .*\b_*redisAsync\w*Command/,
        # the channel of each message is copied
        qr/^message: sdsnewlen < _*redis(?:Process|GetSubscribe)Callback/,
    ],
    # SUBSCRIBE does not notice that its callback is not there
    1 => [qr/^subscribe: .*\b_*redisAsync\w*Command/],
);

# exit status or -signal, stdout, stderr
sub run {
    my (@command) = @_;
    my $pid = fork // die "fork: $!";
    if (!$pid) {
        chdir $dir or die "$dir: $!";
        open STDOUT, '>', "$dir/out" or die "out: $!";
        open STDERR, '>', "$dir/err" or die "err: $!";
        # a fuzzer that hangs has failed
        alarm($ENV{DSEM_LONG} ? 600 : 300);
        exec @command or die "$command[0]: $!";
    }
    waitpid $pid, 0;
    return ($? & 127 ? -($? & 127) : $? >> 8, map {
        open my $fh, '<', "$dir/$_" or die "$_: $!";
        local $/;
        scalar <$fh>;
    } qw(out err));
}

sub fuzz { return run("$dir/guard", @_) }

my @FLAGS = (part_flags(), qw(-O1 -fno-omit-frame-pointer),
    '-fsanitize=address,undefined');
my @include = ("-I$root/t/fuzz", part_includes());
my @wrap = map { "-Wl,--wrap=$_" } qw(malloc calloc realloc strdup free);

my ($status, $out, $err) = run('gcc', @FLAGS, @include,
    (map { "$root/t/fuzz/$_.c" } qw(guard connection reply memory corpus)),
    "$root/ngx_module/redis/ngx_http_dsem_guard.c", '-l:libhiredis.a', @wrap,
    '-o', 'guard');
is $status, 0, 'fuzzer built' or BAIL_OUT $err;

# the rest of the environment may ask a sanitizer for other things
delete @ENV{qw(ASAN_OPTIONS UBSAN_OPTIONS)};

($status, $out, $err) = fuzz('--corpus');
is $status, 0, 'corpus: each reply ends the connection' or diag $err;
like $out, qr/^rejected \d{2,} replies$/m, 'corpus: all replies sent';

for my $seed (@SEEDS) {
    ($status, $out, $err) = fuzz("--seed=$seed", "--rounds=$rounds");
    is $status, 0, "seed $seed: process survived" or diag $err;
    my ($done, $replies, $alive) = $out
        =~ /rounds (\d+) replies (\d+) alive (\d+)/;
    is $done, $rounds, "seed $seed: $rounds rounds";
    cmp_ok $replies // 0, '>', $rounds / 2, "seed $seed: good replies passed";
    cmp_ok $alive // 0, '>', $rounds / 20, "seed $seed: connections survived";
    diag "seed $seed: $out" if $ENV{DSEM_LONG};
}

for my $seed (@SEEDS) {
    ($status, $out, $err) = fuzz("--seed=$seed", "--rounds=$rounds",
        '--no-guard');
    is $status, -6, "seed $seed: process aborted without the guard";
    like $err, qr/Assertion|AddressSanitizer|runtime error/,
        "seed $seed: by hiredis";
    like $err, qr/repeat with --seed=$seed --round=\d+/,
        "seed $seed: round named";
}

($status, $out, $err) = fuzz('--memory');
my ($major) = $out =~ /^hiredis (\d+)\./m;
my %failures = $out =~ /^hiredis \S+ ([^:]+): (\d+) failures/mg;
for (qw(connect command write reply subscribe message)) {
    cmp_ok $failures{$_} // 0, '>', 0, "no memory: $_";
}
my @crashes = $out =~ /^crash: (.*)/mg;
my @wrong = grep {
    my $site = s/.*?, (?=[a-z ]+:)//r;
    !grep { $site =~ $_ } @{ $FATAL{ $major // 1 } // $FATAL{1} };
} @crashes;
is scalar(@wrong), 0, 'no memory: connection lost, process survived'
    or diag join "\n", @wrong, $err;
unlike $err, qr/^fuzz:/m, 'no memory: nothing leaked, one callback each';

done_testing();
