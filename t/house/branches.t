#!/usr/bin/perl

# The branches of Lua that "make coverage" counts: all kinds are found, and each
# is counted when it is taken. Its report knows the reasons of those that are
# left.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Dsem::Branches;
use Dsem::Test;

my $t = Dsem::Test->new;
my $redis = $t->redis;

my $LUA = <<'EOF_LUA';
-- a script
local a, b = ARGV[1] == '1', ARGV[2] -- not a token: if
local function f(x) return x and a or [[if
]] end
if a then b = "end" elseif b == '2' then b = 'or' end
for i = 1, b == 'or' and 0 or 2 do f(i) end
local t = { f = function() return 0x1f end, [1] = -2 ^ 2; #b, 'x' }
while not t.done do t.done = true if a then break end end
repeat b = b .. 'x' until #b > 3
if b == 'never' then return t.f() else t = t[1] .. (b:sub(1, 1)) end
if ARGV[3] then error('fails', 0) end
return { t, select('#', (f)(nil), f(1)) }
EOF_LUA

# branches of a run, the names of those taken
sub run {
    my (@argv) = @_;
    my $branches = Dsem::Branches->new;
    my $text = $branches->count('some.lua', $LUA, 1);
    is $text =~ tr/\n//, 3 + $LUA =~ tr/\n//, "@argv: as many lines";
    my $reply = eval { $redis->cmd('EVAL', $text, 0, @argv) } // $@;
    my $want = eval { $redis->cmd('EVAL', $LUA, 0, @argv) } // $@;
    if (@argv > 2) {
        s/ script: .*//s for $reply, $want;
    }
    is_deeply $reply, $want, "@argv: same reply";
    my ($log) = `grep -ao 'branches [0-9 ]*' @{[ $redis->log ]} | tail -n 1`
        =~ /branches (.*)/;
    return map { my $of = $branches->all->[$_]; "$of->{line} $of->{what}" }
        sort { $a <=> $b } split / /, $log;
}

like(Dsem::Branches->new->count('some.lua', "if a then\n-- include\nend\n"),
    qr/\Aif a then[^\n]*\n-- include\n else /, 'a comment stays in its arm');
is_deeply [ run('1', '2') ], [ '3 called', '3 left decides',
    '3 right evaluated', '3 left decides', '3 right evaluated', '5 taken',
    '6 left decides', '6 right evaluated', '6 rounds', '8 rounds', '8 taken',
    '10 else', '11 else' ], 'branches of a run';
is_deeply [ run('0', '2') ], [ '3 called', '3 left decides',
    '3 right evaluated', '3 right evaluated', '5 taken', '6 right evaluated',
    '6 left decides', '6 no round', '8 rounds', '8 else', '9 again', '10 else',
    '11 else' ], 'other branches of another one';
is_deeply [ grep { /^(?:5|11) / } run('0', 'long', 'error') ],
    [ '5 else', '11 taken' ], 'of a run that fails';

eval { Dsem::Branches->new->count('bad.lua', "if x then\n") };
like $@, qr/^bad\.lua:2: '' is not expected here/, 'bad source';

# the report
my ($from, $to) = map { $t->dir . "/$_" } 'from', 'to';
mkdir $from;
write_to("$from/one.lua", "if a then b() end\nfor i = 1, a do b() end\n");
is system("$FindBin::Bin/branches count $from $to"), 0, 'sources counted';
mkdir "$to/taken";
write_to("$to/taken/$_", "branches\n$_\n") for 0, 2;

is_deeply [ report('') ], [ 1, 'NO REASON', 'NO REASON' ], 'no reasons';
is_deeply [ report(<<'EOF_MD') ], [ 0, 'a', 'b' ], 'all reasons';
## a
- `one.lua`, else: `if a then`
## b
- `one.lua`, no round: `for i = 1, a`
EOF_MD
is_deeply [ report(<<'EOF_MD') ], [ 1, 'a', 'a' ], 'one too many';
## a
- `one.lua`, else: `if a then`
- `one.lua`, no round: `for i = 1, a`
- `one.lua`, taken: `if a then`
EOF_MD
for my $heading ('By chance', 'Elsewhere: t/other') {
    is_deeply [ report(<<"EOF_MD") ], [ 0, $heading, $heading ], $heading;
## $heading
- `one.lua`, else: `if a then`
- `one.lua`, no round: `for i = 1, a`
- `one.lua`, taken: `if a then`
EOF_MD
}

$t->done;

sub write_to {
    my ($path, $text) = @_;
    open my $file, '>', $path or die "$path: $!";
    print {$file} $text;
    close $file;
}

# whether it failed, and the reasons
sub report {
    my ($reasons) = @_;
    write_to("$to/reasons", $reasons);
    my $text = `$FindBin::Bin/branches report $to $to/reasons`;
    return $? ? 1 : 0, $text =~ /^ {9}(.*)/mg;
}
