package Dsem::LogLines;

# What the module logs at run time, as its sources have it, to compare pages with.
#
#   formats($source)   each way in which a line can be written: level, in lower
#                      case, or "variable"; text, with its conversions; words:
#                      the literals that were chosen for "%s"; re, of a line,
#                      with a group for each other conversion; open: groups of
#                      texts that are not in quotes
#   reasons($source)   texts that a variable may have, such as the cause of an
#                      outage: text, re; short: up to the first comma, behind which
#                      is advice
#
# Lines of "nginx -t", which go to the log of the configuration, are no part of it.
#
# Called by: t/house/pages.t.

use strict;
use warnings;

use parent 'Exporter';

our @EXPORT_OK = qw(formats reasons);

my $STRING = qr/"(?:[^"\\]|\\.)*"/;
my $CONVERSION = qr/%(?:ui|uL|uD|uz|\*s|[A-Za-z])/;
# a name is encoded, and so is what others have written
my $NAME = qr{[\w.:%~{}/\@=-]+};
my $ANY = qr/.*?/;

# The arguments of a call, up to its closing bracket.
sub _arguments {
    my ($text) = @_;
    my ($depth, @args) = (0, '');
    for my $token ($text =~ /($STRING|[^"])/gs) {
        last if $token eq ')' && !$depth;
        $depth += { '(' => 1, ')' => -1 }->{$token} // 0;
        if ($token eq ',' && !$depth) {
            push @args, '';
        } else {
            $args[-1] .= $token;
        }
    }
    return @args;
}

# A literal of C, in as many parts as it has.
sub _literal {
    my $text = join '', map { substr $_, 1, -1 } $_[0] =~ /($STRING)/g;
    return $text =~ s/\\(["\\])/$1/gr;
}

# What may stand for each conversion: a list of texts, or a pattern.
sub _values {
    my ($format, @args) = @_;
    my @values;
    while ($format =~ /("?)($CONVERSION)/g) {
        my ($quote, $conversion) = ($1, $2);
        shift @args if $conversion eq '%*s';
        my $arg = shift @args // '';
        my @texts = map { _literal($_) } $arg =~ /($STRING)/g;
        push @values, $conversion eq '%s' && @texts ? \@texts
            : $quote ? $NAME
            : $conversion =~ /[sV]$/ ? $ANY : qr/-?\d+/;
    }
    return @values;
}

# All choices of one text for each list.
sub _choices {
    my ($first, @rest) = @_;
    return [] if !defined $first;
    my @ends = _choices(@rest);
    return map { my $end = $_; map { [$_, @$end] } ref $first eq 'ARRAY'
        ? @$first : $first } @ends;
}

sub formats {
    my ($source) = @_;
    my @formats;
    while ($source =~ /ngx_log_error\(/g) {
        my ($level, $log, undef, $literal, @args)
            = _arguments(substr $source, pos $source, 3000);
        $level = $level =~ /^\s*NGX_LOG_([A-Z]+)$/ ? lc $1 : 'variable';
        $literal //= '';
        next if $literal !~ /^\s*$STRING/ || $log =~ /\bcf->log\b/
            || $level eq 'emerg';
        my $text = _literal($literal);
        my @pieces = split $CONVERSION, $text, -1;
        for my $choice (_choices(_values($text, @args))) {
            my ($groups, $re) = (0, quotemeta $pieces[0]);
            my %format = (level => $level, text => $text, words => [],
                open => []);
            for my $i (1 .. $#pieces) {
                my $value = $choice->[$i - 1];
                push @{ $format{words} }, $value if !ref $value;
                push @{ $format{open} }, $groups if ref $value && $value eq $ANY;
                $groups++ if ref $value;
                $re .= (ref $value ? "($value)" : quotemeta $value)
                    . quotemeta $pieces[$i];
            }
            push @formats, { %format, re => qr/^$re$/ };
        }
    }
    return @formats;
}

# Literals with more than one word that no call of nginx's log has.
sub reasons {
    my ($source) = @_;
    $source =~ s{/\*.*?\*/}{}gs;
    $source =~ s/^#.*//mg;
    $source =~ s/\bngx_log_\w+\(.*?\);//sg;
    my (@reasons, %seen);
    for my $text (map { _literal($_) } $source =~ /($STRING(?:\s*$STRING)*)/g) {
        # a beginning that is compared has a blank at its end, a list begins
        # with a comma
        next if $text !~ /[a-z]{2} |[a-z]: | [a-z]{2}/ || $text =~ /^,/
            || $text =~ /(?<!:) $/ || $seen{$text}++;
        my ($re, $short) = map { join '.+', map { quotemeta }
            split $CONVERSION, $_, -1 } $text, (split /, /, $text)[0];
        push @reasons, { text => $text, re => qr/$re/, short => qr/^$short/ };
    }
    return @reasons;
}

1;
