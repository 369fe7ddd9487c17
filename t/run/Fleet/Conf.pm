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

# directive => value; undef removes the line. Each directive must occur exactly
# once, so that a change of conf.example on which the demonstration relies is
# reported here.
sub relocate {
    my ($text, %value) = @_;
    for my $word (sort keys %value) {
        my $line = defined $value{$word} ? "$word $value{$word};" : '';
        my $n = () = $text =~ /^\s*\Q$word\E\s+[^;{]*;/mg;
        croak "conf.example has $n lines of \"$word\" instead of one"
            if $n != 1;
        $text =~ s/^(\s*)\Q$word\E\s+[^;{]*;/$1$line/m;
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
