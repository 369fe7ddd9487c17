package Dsem::Bench;

# A short run of a program of t/bench, for tests.
#
#   my $said = said('hold', @arguments);    # skips the test with another nginx
#
# Asserts the exit status, and that no line is too long, but for those that
# match $wide.
#
# Called by: t/house/bench_*.t.

use warnings;
use strict;

use Test::More;

use Exporter qw(import);

use Dsem::Test ();

our @EXPORT_OK = qw(said);
our $wide;

sub said {
    my ($program, @arg) = @_;
    plan skip_all => 'make bench is for the nginx of the distribution'
        if $ENV{DSEM_NGINX} || $ENV{DSEM_STATIC_NGINX};
    my $t = "$Dsem::Test::ROOT/t";
    my $said = qx($^X -I$t/lib $t/bench/$program.pl @arg 2>&1);
    is $?, 0, 'exit status zero' or die $said;
    my @long = grep { length > 80 && !($wide && /$wide/) } split /\n/, $said;
    is scalar(@long), 0, '80 columns' or diag $said;
    return $said;
}

1;
