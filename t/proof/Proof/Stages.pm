package Proof::Stages;

# What "make proof" runs: a list of stages, each with its command, the sources
# that it needs and the figures in its output.
#
# Called by: proof; t/house/proof.t.

use strict;
use warnings;

use POSIX qw(strftime);

# seconds of each fuzzer, and of the soak
my %SECONDS = (fuzz => $ENV{FUZZ_SECONDS} || 600,
    soak => $ENV{SOAK_SECONDS} || 1800);

# needs: environment variables that name sources; figures: of the output, as
# text
sub all {
    return (
        suite('this', 'suite, the running system'),
        suite('debian12-i386', 'suite, Debian 12 of 32 bits'),
        suite('debian13', 'suite, Debian 13'),
        suite('debian13-valkey', 'suite, Debian 13 with Valkey'),
        suite('nginx', 'suite, nginx from source, dynamic', 'NGINX_SRC'),
        suite('nginx-static', 'suite, nginx from source, linked in',
            'NGINX_SRC'),
        suite('nginx-stable', 'suite, stable nginx from source, dynamic',
            'NGINX_STABLE_SRC'),
        suite('musl', 'suite, stable nginx and hiredis with musl',
            'NGINX_STABLE_SRC', 'HIREDIS_SRC'),
        suite('openresty', "suite, OpenResty's nginx and ngx_lua",
            'OPENRESTY_SRC'),
        suite('angie', 'suite, Angie', 'ANGIE_SRC'),
        { name => 'packages', what => 'packages of packaging/',
            needs => [qw(NGINX_SRC NGINX_STABLE_SRC HIREDIS_SRC)],
            command => ['sh', '-c', 'make -s packages-needs && t/package/packages'],
            figures => \&of_packages },
        { name => 'debug', what => 'suite, main log at debug',
            command => [qw(env DSEM_DEBUG=1 make test)],
            figures => \&of_prove },
        { name => 'asan', what => 'suite, ASan and UBSan',
            command => [qw(make test-asan)], figures => \&of_prove },
        { name => 'asan-tls', what => 'TLS, ASan and UBSan, hiredis 1.2',
            command => [qw(t/proof/asan-tls)], figures => \&of_prove },
        { name => 'coverage', what => 'coverage',
            command => [qw(make coverage)], figures => \&of_coverage },
        { name => 'mutants', what => 'mutants',
            command => [qw(make mutants)], figures => \&of_mutants },
        { name => 'model', what => 'model', command => [qw(make model)],
            figures => \&of_model },
        { name => 'fuzz', what => "fuzzers, $SECONDS{fuzz} s each",
            command => ['make', 'fuzz', "SECONDS=$SECONDS{fuzz}"],
            figures => \&of_fuzz },
        { name => 'soak', what => "soak, $SECONDS{soak} s",
            command => ['make', 'soak', "SECONDS=$SECONDS{soak}",
                'SEED=' . seed()], figures => \&of_soak },
        { name => 'nginx-tests', what => "nginx's own tests",
            needs => [qw(NGINX_SRC NGINX_TESTS)],
            command => [qw(t/proof/nginx-tests)], figures => \&of_nginx },
        { name => 'site', what => 'the site',
            command => ['sh', '-c', 'make -s site-needs && prove t/house/site.t'],
            figures => \&of_prove },
        { name => 'lint', what => 'static checks',
            command => [qw(make lint)], figures => \&of_lint },
    );
}

# A system of t/matrix, which is a row of the table of compatibility as well. Its
# sources are in the environment, where make would not look.
sub suite {
    my ($system, $what, @needs) = @_;
    return {
        name => $system, what => $what, needs => \@needs, system => 1,
        command => ['t/matrix/matrix', $system],
        figures => \&of_system,
    };
}

# Of the day, so that each proof has another schedule of faults.
sub seed { return strftime '%Y%m%d', gmtime }

###########################################################################
# figures

# Files, tests and time, and the files that ran again.
sub of_prove {
    my ($text) = @_;
    my @runs = $text =~ /^Files=(\d+), Tests=(\d+), +(\d+) wallclock/mg;
    return 'no test ran' unless @runs;
    my ($files, $tests, $seconds) = @runs[-3 .. -1];
    my ($again) = $text =~ /^(\d+ files? ran again)/m;
    return join ', ', "$files files", "$tests tests", "$seconds s",
        $again // ();
}

# The row of t/matrix: words with at least two blanks between them.
sub row {
    my ($text) = @_;
    my ($table) = $text =~ /^system {2,}nginx.*\n(.+)\n/m or return;
    my %row;
    @row{qw(system nginx hiredis store files passed failed skipped)}
        = split / {2,}/, $table;
    return \%row;
}

sub of_system {
    my ($text) = @_;
    my $row = row($text) or return 'not run';
    return 'not built' if $row->{nginx} eq 'not built';
    my $again = () = $text =~ /: \S+ ran again$/mg;
    return join ', ', "$row->{passed} of $row->{files} files passed",
        "$row->{skipped} skipped", $again ? "$again ran again" : ();
}

sub of_packages {
    my ($text) = @_;
    my @lines = $text =~ /^(packages: .*)$/mg;
    return $lines[-1] // 'no figures';
}

sub of_coverage {
    my ($text) = @_;
    my @all = $text =~ /^all +(\d+ of +\d+ (?:lines|branches)) +[\d.]+ %/mg;
    return join(', ', map { tr/ //sr } @all) || 'no figures';
}

sub of_mutants {
    my ($text) = @_;
    return $text =~ /^mutants: (\d+ killed.*), \d+ s$/m ? $1 : 'no figures';
}

sub of_model {
    my ($text) = @_;
    my @lines = $text =~ /^(\S.*)$/mg;
    return $lines[-1] // 'no figures';
}

sub of_fuzz {
    my ($text) = @_;
    my @executed = $text =~ /^stat::number_of_executed_units: +(\d+)/mg;
    my $sum = 0;
    $sum += $_ for @executed;
    return scalar(@executed) . " fuzzers, $sum executions";
}

sub of_soak {
    my ($text) = @_;
    my ($requests) = $text =~ /^requests +(\d+)/m;
    my ($violations) = $text =~ /^(\d+ violations)/m;
    return join ', ', 'seed ' . seed(), $requests ? "$requests requests" : (),
        $violations // 'not checked';
}

sub of_nginx {
    my ($text) = @_;
    return $text =~ /^(with us .*)$/m ? $1 : 'no figures';
}

sub of_lint {
    my ($text) = @_;
    my $findings = () = $text =~ /^\S+:\d+/mg;
    return "$findings findings";
}

1;
