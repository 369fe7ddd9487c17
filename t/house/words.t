#!/usr/bin/perl

# The glossary of docs/architecture.md is kept: words that were retired are not
# used again. What is left of them is counted: less is fine, more is not.

use warnings;
use strict;

use Test::More;

use FindBin;

use File::Find;

my $root = "$FindBin::Bin/../..";

# word => [what it looks like, left in comments of C and Lua]; lower a number
# when some have gone
my %retired = (
    told => [qr/\b(?:told|tells?)\b/, 0],
    heard => [qr/\bheard\b/, 0],
    known => [qr/\bknown\b/, 3],
    news => [qr/\bnews\b/, 0],
    look => [qr/\blook(?:s|ed)? (?:at|after|for|up)\b/, 2],
    'the same' => [qr/\A(?:the|The) same\b/, 3],
    'so many' => [qr/\b[Ss]o (?:many|long|often)\b/, 0],
    away => [qr/\b(?:is|while Redis is) away\b/, 0],
    who => [qr/\b(?:who|whoever|nobody|somebody)\b/, 0],
);

my %comments;
find({ no_chdir => 1, wanted => sub {
    return unless /\.(?:[ch]|lua)$/;
    open my $fh, '<', $_ or die "$_: $!";
    my $text = do { local $/; <$fh> };
    my $lua = /\.lua$/;
    my @found = $lua ? $text =~ /((?:^ *--.*\n)+|--.*\n)/mg
        : $text =~ m{(/\*.*?\*/)}sg;
    $comments{ s{^\Q$root\E/}{}r } = [map {
        my $comment = s/\n\s*(?:\*|--) ?/ /gr;
        $comment =~ s{^\s*(?:/\*|--)\s*}{}r;
    } @found];
} }, map { "$root/$_" } qw(ngx_module lua));

cmp_ok scalar(map { @$_ } values %comments), '>', 500, 'comments found';

for my $word (sort keys %retired) {
    my ($re, $left) = @{ $retired{$word} };
    my @places = map {
        my $file = $_;
        map { my $n = () = /$re/g; ("$file: $word") x $n }
            @{ $comments{$file} };
    } sort keys %comments;
    cmp_ok scalar(@places), '<=', $left, "$word: at most $left"
        or diag join "\n", @places;
}

# in documents for operators there are none of the worst

my @said;
for my $path ("$root/README.md", glob "$root/docs/*.md") {
    open my $fh, '<', $path or die "$path: $!";
    my $text = do { local $/; <$fh> };
    $text =~ s/^Retired, and what.*?\n\n?\z//ms;
    $text =~ s/^```.*?^```$|`[^`]*`|\]\([^)]*\)//msg;
    push @said, map { "$path: $_" }
        $text =~ /\b(told|tells?|heard|news|goes? on|so many)\b/g;
}
is scalar(@said), 0, 'none in the documents' or diag join "\n", @said;

# the glossary names each of them

open my $fh, '<', "$root/docs/architecture.md" or die "architecture.md: $!";
my ($retired) = do { local $/; <$fh> } =~ /^Retired, and what to write:(.*?)\z/ms;
for my $word (sort keys %retired) {
    my ($first) = $word =~ /^(.*?)(?:,|$)/;
    like $retired // '', qr/\b$first\b/, "$word: in the glossary";
}

done_testing();
