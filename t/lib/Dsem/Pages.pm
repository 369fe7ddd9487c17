package Dsem::Pages;

# The documents, as tests read them: README.md and docs/.
#
#   page('docs/redis.md')       its text
#   pages                       path => text of README.md and docs/*.md
#   documents                   the same of every *.md in the tree
#   section('TLS')              text of the one section with this title, without
#                               the title, up to the next one of its level
#   anchors($text)              of its headings, as GitHub names them
#   slurp($path)                text of any file
#   straight($path)             the path without ".."
#   astray($there, %text)       links outside of code, as "path: link", for which
#                               $there->($target, $anchor) is false; path => text
#
# Called by: tests, Dsem::Redis, Dsem::Recipe, docs/site/build.

use strict;
use warnings;

use parent 'Exporter';

use Carp qw(croak);
use File::Basename qw(dirname);
use File::Find ();

our @EXPORT = qw(page pages documents section anchors slurp straight astray);

my $ROOT = dirname(__FILE__) . '/../../..';

sub slurp {
    my ($path) = @_;
    open my $fh, '<', $path or croak "$path: $!";
    local $/;
    return scalar(<$fh>) // '';
}

sub page { return slurp("$ROOT/$_[0]") }

sub pages {
    return map { my $path = s{^\Q$ROOT\E/}{}r; $path => page($path) }
        "$ROOT/README.md", sort glob "$ROOT/docs/*.md";
}

sub documents {
    my @paths;
    File::Find::find({ no_chdir => 1, wanted => sub {
        $File::Find::prune = 1 if m{/(?:build|\.git|node_modules)$};
        push @paths, s{^\Q$ROOT\E/}{}r if /\.md$/;
    } }, $ROOT);
    return map { $_ => page($_) } sort @paths;
}

sub section {
    my ($title) = @_;
    my %page = pages();
    my @found;
    for my $text (values %page) {
        while ($text =~ /^(#+) \Q$title\E\n/mg) {
            my ($level, $rest) = (length $1, substr $text, pos $text);
            push @found, $rest =~ /\A(.*?)(?=^#{1,$level} |\z)/ms;
        }
    }
    croak "sections \"$title\": " . @found if @found != 1;
    return $found[0];
}

# Headings in blocks of code are none.
sub anchors {
    my ($text) = @_;
    $text =~ s/^```.*?^```$//msg;
    my %n;
    return map {
        my $anchor = lc(s/`//gr) =~ s/[^\w -]//gr =~ tr/ /-/r;
        my $n = $n{$anchor}++;
        $n ? "$anchor-$n" : $anchor;
    } $text =~ /^#+ (.*)/mg;
}

sub straight {
    my ($path) = @_;
    1 while $path =~ s{(?:^|(?<=/))(?!\.\./)[^/]+/\.\./}{};
    return $path;
}

# Links to other servers are none of these.
sub astray {
    my ($there, %text) = @_;
    my @astray;
    for my $path (sort keys %text) {
        my $folder = $path =~ m{^(.*/)} ? $1 : '';
        my $prose = $text{$path} =~ s/^(?:```.*?^```$| {4,}.*?$)//msgr;
        for my $link ($prose =~ /\]\(([^)\s]+)\)/g) {
            next if $link =~ m{^https?:};
            my ($file, $anchor) = $link =~ /^([^#]*)#?(.*)/;
            my $target = $file eq '' ? $path : straight($folder . $file);
            push @astray, "$path: $link" if !$there->($target, $anchor);
        }
    }
    return @astray;
}

1;
