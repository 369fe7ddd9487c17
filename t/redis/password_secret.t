#!/usr/bin/perl

# A password is in no log, no response and no core, of the master or of a
# worker: written in the configuration or read from a file, right or wrong,
# before and after a reconnect and a reload.

use lib 't/lib';
use Dsem::Test;

plan skip_all => 'the shadow memory of a sanitizer is too large to be read'
    if $ENV{ASAN_OPTIONS};

# what is freed keeps what was in it
local $ENV{MALLOC_PERTURB_} = 0;

my $t = Dsem::Test->new;
my $up = $t->upstream;
my $redis = $t->redis;
# the text itself is not in this process
my $secret = join '', map { chr(97 + int rand 26) } 1 .. 24;
$redis->cmd(qw(ACL SETUSER app on), ">$secret", qw(~* &* +@all));

my $file = $t->dir . '/password';
open my $fh, '>', $file or die "$file: $!";
print $fh "$secret\n";
close $fh;

my $conf = <<'EOF_CONF';
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    error_log %%DIR%%/debug.log debug;
    %%PADDING%%
    dsem_redis %%REDIS%% user=app %%PASSWORD%%;
    dsem_node %%NODE%%;
    dsem_reuse off;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / {
            dsem api limit=1 queue=10;
            dsem_on_error reject;
            proxy_pass http://%%UPSTREAM%%;
        }
    }
}
EOF_CONF

# Processes in whose core the password would be.
sub in_core {
    my ($node) = @_;
    return [ map { $_ == $node->pid ? 'master' : 'worker' }
        grep { has_secret($node, $_) } $node->pid, $node->workers ];
}

# Of what can be read a core has all but what is marked with MADV_DONTDUMP. The
# process is stopped: memory that it frees may be unmapped at once.
sub has_secret {
    my ($node, $pid) = @_;
    $node->freeze($pid);
    wait_for {
        open my $stat, '<', "/proc/$pid/stat" or die "state of $pid: $!";
        <$stat> =~ /\) T /;
    } 10, 'process stopped';
    open my $memory, '<:raw', "/proc/$pid/mem" or die "memory of $pid: $!";
    my ($found, $heap) = (0);
    for (dumped($pid)) {
        my ($begin, $length, $name) = @$_;
        sysseek $memory, $begin, 0;
        my $bytes = '';
        while (length $bytes < $length) {
            sysread $memory, $bytes, $length - length $bytes, length $bytes
                or die "memory of $pid at $begin: $!";
        }
        $heap ||= $name eq '[heap]';
        blank_registers(\$bytes) if $name eq '[stack]';
        my $place = index $bytes, $secret;
        next if $place < 0;
        $found = 1;
        note sprintf '%d: %s at %#x of %#x: %s', $pid, $name, $place, $length,
            substr($bytes, $place > 40 ? $place - 40 : 0, 120)
            =~ s/[^ -~]/./gr =~ s/\Q$secret\E/*/gr;
    }
    $node->thaw($pid);
    die "no heap of $pid" unless $heap;
    return $found;
}

# What copied a password last has it in vector registers, which any core has, and
# which the kernel saves for the handler of a signal: with a word of four bytes
# and the length of all, at 464 on x86.
sub blank_registers {
    my ($stack) = @_;
    while ($$stack =~ /SXPF(....)/gs) {
        my ($begin, $length) = (pos($$stack) - 8 - 464, unpack 'V', $1);
        next if $begin < 0 || $begin + $length > length $$stack;
        my $next = pos $$stack;
        substr $$stack, $begin, $length, "\0" x $length;
        pos($$stack) = $next;
    }
    return;
}

# [begin, length, name] of each part of the memory.
sub dumped {
    my ($pid) = @_;
    open my $maps, '<', "/proc/$pid/smaps" or die "maps of $pid: $!";
    no warnings qw(portable);
    my (@part, $part);
    while (my $line = <$maps>) {
        if ($line =~ /^([0-9a-f]+)-([0-9a-f]+) (\S+) \S+ \S+ \d+ *(.*)$/) {
            my ($access, $name) = ($3, $4);
            $part = [ hex $1, hex($2) - hex $1, $name ];
            # those of the kernel cannot be read
            push @part, $part if $access =~ /^r/ && $name !~ /^\[v/;
        } elsif ($line =~ /^VmFlags:.* dd\b/) {
            @part = grep { $_ != $part } @part;
        }
    }
    return @part;
}

# the oracle must be able to find something

my $probe = $t->node('probe', $conf, PADDING => "log_format probe $secret;",
    PASSWORD => "password_file=$file");
is $probe->get('/')->status, 200, 'a password in another directive as well';
is_deeply in_core($probe), ['master', 'worker'], 'seen in a core';
$probe->stop;

for my $case (
    ['file', '', "password_file=$file"],
    ['literal', '', "password=$secret"],
    # the directive is read in two parts
    ['parts', join('', ('# ' . 'x' x 90 . "\n") x 43), "password=$secret"],
    ['quotes', '', qq("password=\\"$secret"), '"'],
    # the name of the directive after the password
    ['comment', '', "password=$secret\n# as in dsem_redis\n db=0"],
) {
    my ($name, $padding, $password, $prefix) = @$case;
    $prefix //= '';
    $redis->cmd(qw(ACL SETUSER app resetpass), ">$prefix$secret");
    my $node = $t->node($name, $conf, PADDING => $padding,
        PASSWORD => $password);
    is $node->get('/')->status, 200, "$name: connected";
    is_deeply in_core($node), [], "$name: in no core";

    $redis->cmd(qw(ACL SETUSER app resetpass >other));
    $redis->client_kill;
    eventually { $node->get('/')->status == 503 } "$name: wrong password";
    my $body = $node->get('/')->body;
    is_deeply in_core($node), [], "$name: in no core";

    $redis->cmd(qw(ACL SETUSER app), ">$prefix$secret");
    $node->reload;
    eventually { $node->get('/')->status == 200 } "$name: reloaded";
    is_deeply in_core($node), [], "$name: in no core after a reload";

    unlike $body, qr/$secret/, "$name: not in a response";
    my $logs = join ' ', glob $t->dir . "/$name/*log*";
    is qx(grep -laF $secret $logs), '', "$name: in no log";
    $node->stop;
}

# two passwords in one directive, in both orders

for my $case (
    ['first', "password=$secret 'sentinel_password=other word'"],
    ['second', qq("sentinel_password=other \\" \\t\\r\\n\\\\" )
        . "password=$secret"],
    ['sentinel', "sentinel_password=$secret password=other"],
    ['behind', "password=$secret\n#dsem_redis\n sentinel_password=other"
        . ' sentinel_user=dsem_redis'],
) {
    my ($name, $passwords) = @$case;
    my $node = $t->node($name, $conf =~ s/%%REDIS%% user=app/%%REDIS%%/r,
        PADDING => '', REDIS => '127.0.0.1:1',
        PASSWORD => "mode=sentinel master=m $passwords db=3");
    is_deeply in_core($node), [], "$name of two: in no core";
    my @command = map { "'$_'" } $node->_argv('-T');
    my $dump = qx(@command 2>/dev/null);
    unlike $dump, qr/$secret|other/, "$name of two: not in nginx -T";
    like $dump, qr/dsem_redis.* master=m .*\bdb=3;/s, "$name of two: the rest is";

    # a reload that fails
    if ($name eq 'first') {
        $t->expect_log(qr/invalid value "99999"/);
        $node->write_conf($conf =~ s/%%PASSWORD%%/password=$secret db=99999/r);
        $node->signal('HUP') for 1 .. 2;
        eventually { $node->grep_log(qr/invalid value "99999"/) }
            'refused reload';
        # the master reads no configuration any more: it comes to this last
        $node->signal('USR1');
        wait_for { $node->grep_log(qr/\[notice\].* reopening logs/) } 15,
            'both reloads over';
        is_deeply in_core($node), [], 'refused reload: in no core';
    }
    $node->stop;
}

# what "nginx -t" says of wrong words

for my $wrong ("pasword=$secret", "redis://app:$secret\@127.0.0.1:6379",
    "redis://:$secret=\@127.0.0.1", "app:$secret\@127.0.0.1:6379",
    "password=$secret password_file=$file", "password=$secret password=$secret")
{
    my ($status, $errors) = $t->test_conf(
        $conf =~ s/%%PADDING%%//r =~ s/%%PASSWORD%%/$wrong/r);
    is $status, 1, 'refused';
    unlike $errors, qr/$secret/, 'without the password';
}

$t->done;
