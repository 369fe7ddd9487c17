package Bench::Stage;

# The environment of a benchmark: a directory, a private Redis, and the nginx
# nodes of subjects and backend. Replaces Dsem::Test for the parts of the
# harness that it uses; no process started here outlives the script.
#
# Called by: all programs of t/bench that start something, and their modules.

use strict;
use warnings;

use File::Path qw(make_path remove_tree);

# for the path of the repository
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

my $program;

# That of a program, which ends with it, also by a signal: with the nginx of the
# distribution.
sub program {
    my ($class, $name) = @_;
    $| = 1;
    delete $ENV{DSEM_NGINX};
    $ENV{MALLOC_PERTURB_} = 0;
    $SIG{PIPE} = 'IGNORE';
    $SIG{$_} = sub { exit 1 } for qw(INT TERM HUP);
    return $program = $class->new($name);
}

END { local $?; $program->end if $program }

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
