package Fleet::Conf;

# conf.example, unchanged or adapted to this machine: only the values of
# directives that contain an address or a path are replaced.
#
# Called by: Fleet; t/house/readme.t runs the same text through nginx -t.

use strict;
use warnings;

use Carp qw(croak);

sub read_text {
    my ($path) = @_;
    open my $fh, '<', $path or croak "$path: $!";
    local $/;
    return scalar <$fh>;
}

# directive => value; undef removes the line. One of an upstream has the name of
# that before it: "backend server". Each directive must occur exactly once, so
# that a change of conf.example on which the demonstration relies is reported
# here.
sub relocate {
    my ($text, %value) = @_;
    for my $name (sort keys %value) {
        my ($upstream, $word) = $name =~ /^(?:(\w+) )?(\w+)$/;
        my $line = defined $value{$name} ? "$word $value{$name};" : '';
        my ($start, $part, $rest) = ('', $text, '');
        ($start, $part, $rest)
            = $text =~ /\A(.*?^\s*upstream $upstream \{)([^}]*)(.*)\z/ms
            or croak "conf.example has no upstream \"$upstream\""
            if $upstream;
        my $n = $part =~ s/^(\s*)$word\s+[^;{]*;/$1$line/mg || 0;
        croak "conf.example has $n lines of \"$name\" instead of one"
            if $n != 1;
        $text = "$start$part$rest";
    }
    return $text;
}

# Inserts lines at the beginning of the http block.
sub add_to_http {
    my ($text, @lines) = @_;
    my $added = join '', map { "    $_\n" } @lines;
    $text =~ s/^http \{\n/http {\n$added/m
        or croak 'conf.example has no http block';
    return $text;
}

# A location of the demonstration's own, first in the server block.
sub add_location {
    my ($text, $path, @lines) = @_;
    my $added = join '', "        location $path {\n",
        map({ "            $_\n" } @lines), "        }\n\n";
    $text =~ s/^    server \{\n/    server {\n$added/m
        or croak 'conf.example has no server block';
    return $text;
}

# The parameters of a "dsem" line: { limit => 10, ... }.
sub semaphore {
    my ($text, $name) = @_;
    my ($params) = $text =~ /^\s*dsem \Q$name\E ([^;]*);/m
        or croak "conf.example has no semaphore \"$name\"";
    return { map { split /=/ } split ' ', $params };
}

1;
