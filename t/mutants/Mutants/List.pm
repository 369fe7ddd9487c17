package Mutants::List;

# The list of mutants: t/mutants/*.list, see README.md there.
#
#   my @mutants = Mutants::List::read($dir);
#       { name, list, tests => [...], why, before, after }
#   my %sources = Mutants::List::sources($root);      # path => text
#   my @found = Mutants::List::find($mutant, \%sources);   # [ path, offset ]
#
# read() dies with file and line where an entry is malformed.
#
# Called by: run, list.t.

use warnings;
use strict;

sub read {
    my ($dir) = @_;
    return map { read_file($_) } sort glob "$dir/*.list";
}

sub read_file {
    my ($path) = @_;
    my $list = $path =~ s{.*/}{}r;
    open my $fh, '<', $path or die "$path: $!\n";
    my (@mutants, $mutant);
    while (my $line = <$fh>) {
        chomp $line;
        next if $line =~ /^#/;
        if ($line eq '') {
            push @mutants, complete($mutant) if $mutant;
            $mutant = undef;
        } elsif (!$mutant) {
            my ($name, $tests) = $line
                =~ m{^([a-z0-9]+(?:-[a-z0-9]+)*): (t/\S+\.t(?: t/\S+\.t)*)$}
                or die "$list:$.: a name, a colon and tests expected\n";
            $mutant = { name => $name, list => $list, line => $.,
                tests => [ split ' ', $tests ], why => '',
                before => '', after => '' };
        } else {
            add($mutant, $line)
                or die "$list:$.: text after the change\n";
        }
    }
    push @mutants, complete($mutant) if $mutant;
    return @mutants;
}

# One line of an entry: " ", "-" and "+" as in a diff, others are the reason.
sub add {
    my ($mutant, $line) = @_;
    if ($line =~ s/^([-+ ])//) {
        $mutant->{before} .= "$line\n" unless $1 eq '+';
        $mutant->{after} .= "$line\n" unless $1 eq '-';
        return 1;
    }
    return 0 if $mutant->{before} ne '';
    $mutant->{why} .= ($mutant->{why} eq '' ? '' : ' ') . $line;
    return 1;
}

sub complete {
    my ($mutant) = @_;
    my $at = "$mutant->{list}:$mutant->{line}";
    die "$at: no reason\n" if $mutant->{why} eq '';
    die "$at: no text to look for\n" if $mutant->{before} eq '';
    die "$at: no change\n" if $mutant->{before} eq $mutant->{after};
    return $mutant;
}

# C and Lua of the module.
sub sources {
    my ($root) = @_;
    my %text;
    for my $path (glob "$root/ngx_module/*.[ch] $root/ngx_module/*/*.[ch]
        $root/lua/*.lua $root/lua/include/*.lua")
    {
        open my $fh, '<', $path or die "$path: $!\n";
        local $/;
        $text{ substr $path, 1 + length $root } = <$fh>;
    }
    return %text;
}

# Where its text is. Whole lines only.
sub find {
    my ($mutant, $sources) = @_;
    my @found;
    for my $path (sort keys %$sources) {
        my $at = -1;
        while (($at = index $sources->{$path}, "\n$mutant->{before}", $at + 1)
            >= 0)
        {
            push @found, [ $path, $at + 1 ];
        }
    }
    return @found;
}

1;
