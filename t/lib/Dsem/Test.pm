package Dsem::Test;

# The harness: one object per test file, which owns the test's directory
# build/t/<folder>/<name>/, every process started from it, and the teardown.
# t/README.md has a test to copy and all that there is.
#
#   my $t = Dsem::Test->new;
#   my $redis = $t->redis;              # Dsem::Redis, private server
#   my $up = $t->upstream;              # Dsem::Upstream, the oracle
#   my $node = $t->node('a', $conf);    # Dsem::Node
#   is($node->get('/?t=5')->status, 200, 'passed');
#   eventually { $up->now == 0 } 'permit back';
#
# Imports: strict, warnings, all of Test::More, nginx_since, and wait_for,
# eventually, now, took (Dsem::Wait).
#
# Called by: tests.

use strict;
use warnings;

use Test::More ();
use Carp qw(croak);
use Cwd qw(abs_path);
use File::Basename qw(basename dirname);
use File::Path qw(make_path remove_tree);
use version ();

use Dsem::Client;
use Dsem::Dns;
use Dsem::Load;
use Dsem::Metronome;
use Dsem::Node;
use Dsem::Ports;
use Dsem::Process;
use Dsem::Proxy;
use Dsem::Redis;
use Dsem::Sentinel;
use Dsem::State;
use Dsem::Teardown;
use Dsem::Upstream;
use Dsem::Wait qw(wait_for eventually now took);

our $ROOT = abs_path(dirname(__FILE__) . '/../../..');

my $builder = Test::More->builder;
my $current;

# Whether nginx has this version, such as '1.29', or a newer one.
sub nginx_since {
    my ($version) = @_;
    my $nginx = $ENV{DSEM_NGINX} // 'nginx';
    local $ENV{PATH} = "$ENV{PATH}:/usr/sbin:/usr/local/sbin";
    my ($own) = qx('$nginx' -v 2>&1) =~ m{/([\d.]+)}
        or croak 'nginx -v: no version';
    return version->parse("v$own") >= version->parse("v$version");
}

sub import {
    my $caller = caller;
    strict->import;
    warnings->import;
    $builder->exported_to($caller);
    Test::More->export_to_level(1);
    no strict 'refs';
    no warnings qw(redefine prototype);
    *{"${caller}::$_"} = \&$_ for qw(wait_for eventually now took
        nginx_since);
    # a test that ends with done_testing() runs the teardown before it
    *{"${caller}::done_testing"} = sub {
        $current ? $current->done : $builder->done_testing(@_);
    };
}

###########################################################################
# life

sub new {
    my ($class, %opt) = @_;
    croak 'one Dsem::Test per file' if $current;

    # the folder too: two folders may have tests of one name
    my $name = abs_path($0) =~ s{^\Q$ROOT\E/t/}{}r =~ s{\.t$}{}r;
    $name = basename($name) if $name =~ m{^/};
    my $dir = "$ROOT/build/t/$name";
    remove_tree($dir);
    make_path($dir);

    $SIG{PIPE} = 'IGNORE';
    $SIG{$_} = sub { exit 1 } for qw(INT TERM HUP);

    start_metronome("$dir/metronome") unless $ENV{DSEM_METRONOME};

    return $current = bless {
        dir => $dir, lease => 5, expected => [], expect_held => 0,
        owner_pid => $$, redis => [], upstreams => [], nodes => [],
        proxies => [], dns => [], loads => [], %opt,
    }, $class;
}

# For a file that runs alone; Dsem::Suite has one for all.
sub start_metronome {
    my ($path) = @_;
    my $parent = $$;
    $ENV{DSEM_METRONOME} = $path;
    Dsem::Process->spawn(name => 'metronome', log => "$path.log",
        code => sub { Dsem::Metronome::run($path, $parent) });
}

sub dir { $_[0]{dir} }
sub root { $ROOT }
sub nodes { @{ $_[0]{nodes} } }
sub loads { @{ $_[0]{loads} } }

sub plan {
    my ($self, $n) = @_;
    $builder->plan(tests => $n + Dsem::Teardown::COUNT);
    return $self;
}

sub expect_log {
    my ($self, $re) = @_;
    push @{ $self->{expected} }, $re;
    return $self;
}

sub expect_held {
    my ($self, $n) = @_;
    $self->{expect_held} = $n;
    return $self;
}

# Ends the test: runs the teardown and stops everything. Once.
sub done {
    my ($self) = @_;
    return if $self->{done}++;
    Dsem::Teardown::check($self);
    Dsem::Process->end_all;
    $builder->done_testing unless $builder->has_plan
        || $builder->expected_tests;
    $self->_keep_branches;
    remove_tree($self->{dir})
        if $builder->is_passing && !$ENV{DSEM_KEEP};
}

# Scripts that count their branches (Dsem::Branches) have logged these. One
# file per test: several tests end at the same time.
sub _keep_branches {
    my ($self) = @_;
    my $taken = ($ENV{DSEM_LUA} // return) . '/taken';
    make_path($taken);
    my $name = $self->{dir} =~ s{^\Q$ROOT\E/build/t/}{}r =~ tr{/}{-}r;
    system "find $self->{dir} -name log -exec grep -aho '# branches [0-9 ]*'"
        . " {} + | tr -s ' ' '\\n' | sort -u > $taken/$name";
}

# A test that died gets no teardown checks.
END {
    if ($current && $current->{owner_pid} == $$) {
        my $status = $?;
        eval { $current->done; 1 } or do { $builder->diag($@); $status ||= 1 }
            if !$status && $builder->current_test;
        Dsem::Process->end_all;
        $current->_keep_branches unless $current->{done};
        $? = $status;
    }
}

###########################################################################
# parts of a test

sub redis {
    my ($self, %opt) = @_;
    my $n = @{ $self->{redis} } + 1;
    my $redis = Dsem::Redis->new($self, "redis$n", %opt);
    push @{ $self->{redis} }, $redis;
    return $redis;
}

sub sentinel {
    my ($self, %opt) = @_;
    return $self->{sentinel} = Dsem::Sentinel->new($self, %opt);
}

sub upstream {
    my ($self, %opt) = @_;
    my $n = @{ $self->{upstreams} } + 1;
    my $up = Dsem::Upstream->new($self, "upstream$n", %opt);
    push @{ $self->{upstreams} }, $up;
    return $up;
}

sub proxy {
    my ($self, $target) = @_;
    my $n = @{ $self->{proxies} } + 1;
    my $proxy = Dsem::Proxy->new($self, "proxy$n", $target);
    push @{ $self->{proxies} }, $proxy;
    return $proxy;
}

sub dns {
    my ($self, %record) = @_;
    my $n = @{ $self->{dns} } + 1;
    my $dns = Dsem::Dns->new($self, "dns$n", %record);
    push @{ $self->{dns} }, $dns;
    return $dns;
}

sub node {
    my ($self, $name, $conf, %token) = @_;
    my $node = Dsem::Node->new($self, $name, $conf, %token);
    push @{ $self->{nodes} }, $node;
    return $node->start;
}

sub fleet {
    my ($self, $n, $conf, %token) = @_;
    return map { $self->node("n$_", $conf, %token) } 1 .. $n;
}

sub client { Dsem::Client->new }

sub load_start {
    my ($self, %opt) = @_;
    my $load = Dsem::Load->new($self, %opt);
    push @{ $self->{loads} }, $load;
    return $load;
}

sub load {
    my ($self, %opt) = @_;
    return $self->load_start(%opt)->wait;
}

# What the first Redis has.
sub state {
    my ($self) = @_;
    return Dsem::State->new($self->{redis}[0]);
}

# A new connection to the last Redis, for subscriptions.
sub connect {
    my ($self) = @_;
    return $self->{redis}[-1]->client;
}

sub test_conf {
    my ($self, $conf, %token) = @_;
    return Dsem::Node->new($self, 'conf', $conf, %token)->test;
}

sub script {
    my ($self, $name) = @_;
    my $lua = $ENV{DSEM_LUA} // "$ROOT/lua";
    open my $fh, '-|', 'awk', '-v', "dir=$lua", '-v', 'text=1', '-f',
        "$ROOT/lua/embed.awk", $name or croak "awk: $!";
    local $/;
    my $text = <$fh>;
    close $fh or croak "script $name cannot be assembled";
    return $text;
}

sub free_port { return Dsem::Ports::free_port() }

1;
