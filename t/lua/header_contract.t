#!/usr/bin/perl

# The head of each script is a contract: it names every KEYS and ARGV that the
# script uses, without gaps, and the reply. lua/README.md lists the fields of the
# tables that scripts share. Assembled scripts pass luacheck.

use FindBin;
use lib "$FindBin::Bin/../lib";
use Dsem::Scripts;

# as they are, not with counts of branches
delete $ENV{DSEM_LUA};

my $scripts = Dsem::Scripts->new;
my $t = $scripts->t;
my @scripts = qw/hello declare declared beat bye sync configure inspect names order
    adjust/;

for my $script (@scripts) {
    open my $file, '<', "$FindBin::Bin/../../lua/$script.lua" or die $!;
    my $text = do { local $/; <$file> };
    my ($head, $body) = $text =~ /\A((?:--[^\n]*\n)+)(.*)\z/s;

    for my $kind (qw/KEYS ARGV/) {
        my %named = map { $_ => 1 } $head =~ /${kind}\[(\d+)\]/g;
        my %used = map { $_ => 1 } $body =~ /${kind}\[(\d+)\]/g;
        if ($kind eq 'ARGV') {
            $used{$_} = 1 for $body =~ /(?:integer|session_name|configuration_id
                |encoded_name|idle_argument)\((\d+)/xg;
        }
        is_deeply [ grep { !$named{$_} } sort keys %used ], [],
            "$script: $kind named";
        is_deeply [ sort { $a <=> $b } keys %named ], [ 1 .. keys %named ],
            "$script: no $kind left out";
    }
    like $head, qr/^-- Reply: /m, "$script: reply documented";
    like $head, qr/^-- .*(Run again|Idempotent|Not idempotent)/m,
        "$script: idempotence documented";
    is scalar(my @keys = $scripts->keys_of($script, 'x')),
        scalar(() = $head =~ /KEYS\[\d\] /g), "$script: as many keys";
}

# fields of the tables of the general path: those that the scripts use, those
# that are listed

my $lua = "$FindBin::Bin/../../lua";
my $name = qr/\b((?:call|view|sem|account|ticket|ask)\.[a-z_]+)/;
my %used;
for my $path (glob "$lua/*.lua $lua/include/*.lua") {
    open my $file, '<', $path or die "$path: $!";
    while (<$file>) {
        s/--.*//;
        $used{$_} = 1 for /$name/g;
    }
}
open my $file, '<', "$lua/README.md" or die "README.md: $!";
my ($tables) = do { local $/; <$file> }
    =~ /^## Tables of the general path\n(.*?)^## /ms;
my %listed = map { $_ => 1 } $tables =~ /`$name`/g;
is_deeply [ grep { !$listed{$_} } sort keys %used ], [], 'fields listed';
is_deeply [ grep { !$used{$_} } sort keys %listed ], [],
    'no field listed that is not used';

SKIP: {
    my $luacheck = 'luacheck --std lua51 --globals redis KEYS ARGV'
        . ' --ignore 211 431 --no-cache --codes';
    skip 'no luacheck', scalar @scripts if system 'luacheck --version >/dev/null 2>&1';

    for my $script (@scripts) {
        my $path = $t->dir . "/$script.lua";
        open my $file, '>', $path or die $!;
        print {$file} $t->script($script);
        close $file or die $!;
        my $said = `$luacheck $path`;
        is $?, 0, "$script: clean" or diag $said;
    }
}
