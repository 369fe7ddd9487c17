package Bench::Callgrind;

# Counts instructions of an nginx under valgrind. It runs as a single process,
# because valgrind does not show which of several processes is the worker.
#
# Called by: instructions.pl.

use strict;
use warnings;

use Carp qw(croak);

use Dsem::Wait qw(wait_for);

# The owner of a line "file:function [object file]"; an inlined function of
# another file has no object file.  hiredis is linked into the module.
my @OWNER = (
    [qr/:ngx_http_dsem_/, 'dsem'],
    [qr/:ngx_.*\[.*ngx_http_dsem/, 'dsem'],
    [qr/\[.*(?:ngx_http_dsem|hiredis)/, 'hiredis'],
    [qr/\[.*nginx/, 'nginx'], [qr/\[./, 'libc'],
);

sub new {
    my ($class, $stage) = @_;
    my $self = bless { dir => $stage->dir, stage => $stage }, $class;
    $self->{nginx} = "$self->{dir}/valgrind-nginx";
    open my $fh, '>', $self->{nginx} or croak "$self->{nginx}: $!";
    print $fh "#!/bin/sh\nexec valgrind -q --tool=callgrind ",
        "--callgrind-out-file=$self->{dir}/callgrind.%p nginx \"\$@\"\n";
    close $fh;
    chmod 0755, $self->{nginx};
    return $self;
}

# Runs $start; nginx processes that it starts run under valgrind.
sub around {
    my ($self, $start) = @_;
    local $ENV{DSEM_NGINX} = $self->{nginx};
    local $self->{stage}{start} = "daemon off;\nmaster_process off;";
    return $start->();
}

# Begins to count.
sub begin {
    my ($self, $node) = @_;
    $self->{pid} = $node->pid;
    $self->dump;
}

sub dump {
    my ($self) = @_;
    system("callgrind_control -d $self->{pid} >/dev/null 2>&1") == 0
        or croak 'callgrind_control failed';
    my $file = "$self->{dir}/callgrind.$self->{pid}." . ++$self->{dumps};
    return wait_for { -s $file && $file } 10, 'the counts of valgrind';
}

# owner => instructions since begin. valgrind attributes all instructions to
# functions that were active before and still are, such as main().
sub counted {
    my ($self) = @_;
    my $file = $self->dump;
    my %n = map { $_->[1] => 0 } @OWNER;
    for (qx(callgrind_annotate --threshold=100 --auto=no $file)) {
        my ($count, $object) = /^ *([\d,]+) \([\d. ]+%\)  (.*)$/ or next;
        $count =~ tr/,//d;
        $n{all} //= $count;
        next if $count == $n{all};
        my ($owner) = grep { $object =~ $_->[0] } @OWNER;
        $n{ $owner->[1] } += $count if $owner;
    }
    return %n;
}

1;
