package Dsem::Roots;

# Debian in roots of its own, for tests that install there: the roots of t/matrix
# that have nothing but the base system, and copies of them.
#
#   unfit($does)                    why it cannot be done here, or ''
#   said(@command)                  the output of a command, which must succeed
#   roots                           their directory
#   fresh($suite, $name)            a copy of the root of a suite, by name
#   inside($name, @command)         said in this root; build/ is there
#
# Called by: t/package/deb.t, t/package/quick_start.t.

use strict;
use warnings;

use parent 'Exporter';

use Cwd qw(abs_path);
use File::Basename qw(dirname);
use Test::More ();

our @EXPORT = qw(unfit said roots fresh inside);

my $ROOT = abs_path(dirname(__FILE__) . '/../../..');

sub unfit {
    my ($does) = @_;
    return !$ENV{DSEM_LONG} ? "LONG=1 $does" : $< ? 'needs root' : '';
}

sub said {
    my (@command) = @_;
    open my $fh, '-|', 'sh', '-c', 'exec "$@" 2>&1', 'sh', @command
        or die "@command: $!";
    my $said = do { local $/; <$fh> } // '';
    close $fh or Test::More::BAIL_OUT("@command: $said");
    return $said;
}

sub roots { return ($ENV{MATRIX} || '/var/tmp/dsem-matrix') . '/package' }

sub fresh {
    my ($suite, $name) = @_;
    my $path = roots() . "/$name";
    said('rm', '-rf', $path);
    said('cp', '-a', roots() . "/$suite", $path);
    return $path;
}

sub inside {
    my ($name, @command) = @_;
    return said("$ROOT/t/matrix/in-root", roots() . "/$name", "$ROOT/build",
        @command);
}

1;
