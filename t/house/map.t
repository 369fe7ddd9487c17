#!/usr/bin/perl

# The map, docs/architecture.md, is right: each function that it names is in the
# file that it names, each call of a journey is made, each tag of a rule stands
# where the map has it and nowhere else. The index of t/README.md has tests that
# exist.

use warnings;
use strict;

use Test::More;

use FindBin;

use File::Find;
use File::Path qw(make_path);

my $root = "$FindBin::Bin/../..";
my $map = slurp('docs/architecture.md');

sub slurp {
    my ($path) = @_;
    open my $fh, '<', "$root/$path" or die "$path: $!";
    local $/;
    return <$fh>;
}

sub none {
    my ($name, @wrong) = @_;
    is scalar(@wrong), 0, $name or diag join "\n", @wrong;
}

# The file of a short path; undef: it is not there.
sub file {
    my ($short) = @_;
    my $long = $short =~ m{^(.*/)?([^/]+)$} && "ngx_module/" . ($1 // '')
        . ($2 eq 'module.c' ? 'ngx_http_dsem_module.c' : "ngx_http_dsem_$2");
    return (grep { -f "$root/$_" } $long, $short, "ngx_module/$short")[0];
}

# The body of a function; undef: the file does not define it.
my %text;
sub body {
    my ($short, $function) = @_;
    my $file = file($short) // return;
    my $text = $text{$file} //= slurp($file);
    return $text =~ /^(?:local )?function $function\(.*?\n(.*?)^end$/ms
        ? $1 : undef if $file =~ /\.lua$/;
    return $text =~ /^ngx_http_dsem_$function\([^;{]*\)\n\{\n(.*?)^\}/ms
        ? $1 : undef;
}


# functions

my $NAME = qr{([\w./]+\.(?:c|lua)):(\w+)};
my (@named, @absent, @uncalled);
push @named, [$1, $2] while $map =~ /$NAME/g;
cmp_ok scalar(@named), '>=', 100, 'functions found';
none('functions are there', map { "$_->[0]:$_->[1]" }
    grep { !defined body(@$_) } @named);

# one that is named alone, behind another of the same file
while ($map =~ /`([\w\/]+\.c):\w+`((?:, `\w+`)+)/g) {
    my ($file, $more) = ($1, $2);
    push @absent, grep { !defined body($file, $_) } $more =~ /`(\w+)`/g;
}
none('further functions are there', @absent);

# files without a function

none('files are there', grep {
    !/\*/ && !defined file($_) && !-e "$root/$_"
} $map =~ m{(?<![\w:])((?:http|conf|semaphore|fleet|session|node|redis|lua|t|
    docs|monitoring)/[\w./*]+\.[a-z]+)}xg);

# journeys: what is indented is called by the line above

my @blocks = $map =~ /^```\n(.*?)^```$/msg;
for my $block (@blocks) {
    my @above;
    for my $line (split /\n/, $block) {
        my ($indent, $file, $function) = $line =~ /^( *)$NAME/ or next;
        my $depth = length($indent) / 2;
        @above = (@above[0 .. $depth - 1], [$file, $function]);
        next unless $depth;
        my $caller = $above[$depth - 1];
        my $body = body(@$caller) // '';
        push @uncalled, "$caller->[1] calls $function"
            if $body !~ /\b(?:ngx_http_dsem_)?$function\b/;
    }
}
none('calls of the journeys are made', @uncalled);

my ($changes) = $map =~ /^## Where do I change.*?\n(.*?)^## /ms;
cmp_ok scalar(() = $changes =~ /^\| (?!what|---)/mg), '>=', 20,
    'where do I change: rows';


# rules

my (%expected, %name, %tagged, @strange);
for ($map =~ /^(\| `R\d+: .*)$/mg) {
    my (undef, $tag, $rule, $places) = split / *\| */;
    my ($number, $name) = $tag =~ /^`(R\d+): ([a-z ]+)`$/ or die $tag;
    $name{$number} = $name;
    for my $place (split /, /, $places) {
        my ($short, $n) = $place =~ /^`([^`]+)`(?: \((\d+)\))?$/ or die $place;
        $expected{$number}{ file($short) // $short } = $n // 1;
    }
}
cmp_ok scalar(keys %name), '>=', 15, 'rules found';

my @sources;
find({ no_chdir => 1, wanted => sub {
    push @sources, s{^\Q$root\E/}{}r if /\.(?:[ch]|lua|p[lm]|pml)$/;
} }, map { "$root/$_" } qw(ngx_module lua t));

for my $file (sort @sources) {
    for (grep { m{^\s*(?:--|/?\*|#).*\bR\d+: } } split /\n/, slurp($file)) {
        while (/\b(R\d+): ([a-z ]*[a-z])/g) {
            $tagged{$1}{$file}++;
            push @strange, "$file: $1: $2"
                if substr("$2 ", 0, 1 + length($name{$1} // ''))
                    ne ($name{$1} // '') . ' ';
        }
    }
}
none('tags have the names of the map', @strange);
for my $rule (sort keys %name) {
    is_deeply($tagged{$rule}, $expected{$rule}, "$rule: places");
}

# the index of t/README.md

my $readme = slurp('t/README.md');
my ($index) = $readme =~ /^## From a guarantee to its tests\n(.*?)(?=^## |\z)/ms;
my %tests = ($index // '') =~ /^\| ([SLAF]\d) \| .*? \| (.*) \|$/mg;
is_deeply([sort keys %tests],
    [qw(A1 A2 A3 A4 F1 F2 F3 L1 L2 L3 L4 S1 S2 S3 S4)], 'every guarantee');
none('its tests are there', grep { my @there = glob "$root/t/$_"; !@there }
    map { /`([^`]+)`/g } values %tests);

# the test that it shows

my ($shown) = $readme =~ /^```perl\n(.*?)^```$/ms;
my $dir = "$root/build/t/house/map";
make_path($dir);
open my $fh, '>', "$dir/shown.t" or die "$dir/shown.t: $!";
print $fh $shown;
close $fh or die;
my $said = qx($^X -I$root/t/lib $dir/shown.t 2>&1);
is($? >> 8, 0, 'the test that is shown passes') or diag $said;

done_testing();
