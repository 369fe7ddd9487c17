package Bench::Stage;

# Where a bench takes place: a directory, a private Redis, and the nginx nodes
# that subjects and backend are. Stands in for Dsem::Test, whose parts it is
# made of; nothing that was started here outlives the script.
#
# Called by: bench.pl, scale.pl and what they run.

use strict;
use warnings;

use File::Path qw(make_path remove_tree);

# for its idea of where the repository is
use Dsem::Test ();
use Dsem::Node;
use Dsem::Process;
use Dsem::Redis;

sub new {
    my ($class, $name) = @_;
    my $dir = "$Dsem::Test::ROOT/build/bench/$name.$$";
    make_path($dir);
    return bless { dir => $dir, owner => $$ }, $class;
}

sub dir { $_[0]{dir} }
sub free_port { Dsem::Test->free_port }
sub script { Dsem::Test->script($_[1]) }

sub redis {
    my ($self, @args) = @_;
    return $self->{redis} //= Dsem::Redis->new($self, 'redis',
        args => \@args);
}

sub node {
    my ($self, $name, $conf, %token) = @_;
    my $dir = "$self->{dir}/$name";
    my $start = join "\n", "error_log $dir/error.log warn;",
        "pid $dir/nginx.pid;", $self->{start} // (),
        $> == 0 ? 'user root;' : ();
    return Dsem::Node->new($self, $name, $conf, START => $start, %token)
        ->start;
}

sub end {
    my ($self) = @_;
    return if $self->{owner} != $$;
    Dsem::Process->end_all;
    remove_tree($self->{dir}) unless $ENV{DSEM_KEEP};
}

1;
