package Dsem::Faults;

# Faults inside nginx: calls of the module to allocate memory, to the system,
# and to nginx fail, each path through the module once. See t/faults/faults.c,
# which is compiled here and preloaded.
#
#   my $faults = Dsem::Faults->new($t);
#   my $node = $faults->node('a', $conf);       # as $t->node
#   $faults->on(qw(memory system nginx));       # the kinds that fail from now
#   $faults->failed;                            # paths that failed so far
#   $faults->off;
#   $faults->test_conf($conf);  # as $t->test_conf: each path fails in a child
#                               # process, whose end is in records
#   $faults->records;           # { pid how (fails or status) status call path }
#
# Called by: tests.

use strict;
use warnings;

use Carp qw(croak);
use Config;

use Dsem::Node::Conf;

my %KIND = (memory => 1, system => 2, nginx => 4, child => 8);
my $SIZE = 8 + 8 * 16_384;

# Why there can be no faults, or nothing.
sub unusable {
    # relocations of 32 bits have another form
    return 'for modules of 64 bits' if $Config{ptrsize} != 8;
    return 'the module is linked in' unless Dsem::Node::Conf::load_module();
    return;
}

sub new {
    my ($class, $t) = @_;
    my $self = bless { t => $t, map { $_ => $t->dir . "/faults.$_" }
        qw(so table log) }, $class;
    my @command = (qw(gcc -std=gnu99 -D_GNU_SOURCE -O1 -Wall -Wextra -Werror
        -fPIC -shared), $t->root . '/t/faults/faults.c', '-o', $self->{so});
    system(@command) == 0 or croak 'faults.c';
    for (['table', "\0" x $SIZE], ['log', '']) {
        my ($file, $bytes) = @$_;
        open my $fh, '>', $self->{$file} or croak "$self->{$file}: $!";
        print $fh $bytes;
        close $fh or croak "$self->{$file}: $!";
    }
    $self->{not} = join ' ', spared();
    return $self;
}

# Functions of hiredis that end the process where there is no memory, or use
# what they did not get; as addresses in the module: begin, end, begin... There
# are more of them in 0.14 than in 1.x.
sub spared {
    my @symbols = map { [split] } split /\n/,
        qx(nm -S --defined-only @{[ Dsem::Node::Conf::module() ]});
    my $bad = qr/^(?:callbackValDup)$/;
    $bad = qr/$bad|^(?:hi_\w+|dictExpand|sdsnewlen)$/
        unless grep { $_->[-1] eq 'hiredisAllocFns' } @symbols;
    return map { sprintf '%x %x', hex $_->[0], hex($_->[0]) + hex $_->[1] }
        grep { @$_ == 4 && $_->[3] =~ $bad } @symbols;
}

sub preloaded {
    my ($self, $code) = @_;
    local $ENV{DSEM_FAULTS} = $self->{table};
    local $ENV{DSEM_FAULTS_LOG} = $self->{log};
    local $ENV{DSEM_FAULTS_NOT} = $self->{not};
    local $ENV{LD_PRELOAD} = join ' ', $self->{so}, $ENV{LD_PRELOAD} // ();
    # whose library need not be the first one
    local $ENV{ASAN_OPTIONS} = "$ENV{ASAN_OPTIONS}:verify_asan_link_order=0"
        if $ENV{ASAN_OPTIONS};
    return $code->();
}

sub node {
    my ($self, @args) = @_;
    return $self->preloaded(sub { $self->{t}->node(@args) });
}

sub test_conf {
    my ($self, @args) = @_;
    $self->on(qw(memory system nginx child));
    return $self->preloaded(sub { $self->{t}->test_conf(@args) });
}

sub on {
    my ($self, @kinds) = @_;
    my $kinds = 0;
    $kinds |= $KIND{$_} // croak "no such kind: $_" for @kinds;
    open my $fh, '+<', $self->{table} or croak "$self->{table}: $!";
    syswrite $fh, pack('L', $kinds) or croak "$self->{table}: $!";
    close $fh;
    return $self;
}

sub off { $_[0]->on }

sub failed {
    my ($self) = @_;
    open my $fh, '<', $self->{table} or croak "$self->{table}: $!";
    sysread $fh, my $head, 8 or croak "$self->{table}: $!";
    return (unpack 'LL', $head)[1];
}

sub records {
    my ($self) = @_;
    open my $fh, '<', $self->{log} or croak "$self->{log}: $!";
    return map {
        my ($pid, $how, $status, $call, @path) = split;
        { pid => $pid, how => $how, status => $status, call => $call,
            path => \@path };
    } <$fh>;
}

1;
