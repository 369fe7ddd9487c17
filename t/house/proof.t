#!/usr/bin/perl

# "make proof": what its tables say of a stage that passed, failed or could not
# be run, taken from output as the tools print it.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib", "$FindBin::Bin/../proof";
use Test::More;

use Dsem::Test;
use Proof::Stages;
use Proof::Table;

my $t = Dsem::Test->new;
my $dir = $t->dir;

# figures

my %stage = map { $_->{name} => $_ } Proof::Stages::all();

sub figures { $stage{ $_[0] }{figures}->($_[1]) }

is figures('asan', <<'EOF'), '505 files, 14944 tests, 629 s', 'files and tests';
All tests successful.
Files=505, Tests=14944, 629 wallclock secs ( 3.72 usr  1.06 sys)
Result: PASS
EOF
is figures('asan', <<'EOF'), '9 files, 90 tests, 5 s, 1 file ran again',
1 file ran again:
  t/a/b.t, the machine was 3.2 times slower and stalled 0.1 s at once
Files=9, Tests=90,  5 wallclock secs ( 3.72 usr  1.06 sys)
EOF
    'a file that ran again';
is figures('asan', "gcc: error\n"), 'no test ran', 'no test';

my $system = <<'EOF';
make: debian13: testing t, log in /var/tmp/dsem-matrix/log/debian13.tests

system    nginx   hiredis  store        files  passed  failed  skipped
debian13  1.26.3  1.2.0    Redis 8.0.2  505    502     1       2
    debian13: t/a/b.t ran again
    debian13: t/c/d.t failed
EOF
is figures('debian13', $system),
    '502 of 505 files passed, 2 skipped, 1 ran again', 'a system';
is Proof::Stages::row($system)->{store}, 'Redis 8.0.2', 'its row';
my $unbuilt = "system  nginx\ndebian13  not built  -  -  0  0  all  0\n";
is figures('debian13', $unbuilt), 'not built', 'a system that is not built';
is Proof::Stages::row($unbuilt)->{failed}, 'all', 'its row';
is figures('coverage', <<'EOF'),
all                                           9829 of 10217 lines   96.2 %
all                                           1733 of  1764 branches   98.2 %
EOF
    '9829 of 10217 lines, 1733 of 1764 branches', 'coverage';
is figures('mutants', "mutants: 44 tests pass without a mutant, 0 fail, 35 s\n"
    . "mutants: 358 killed, 0 survived, 0 not built, 0 not tried, 851 s\n"),
    '358 killed, 0 survived, 0 not built, 0 not tried', 'mutants';
is figures('fuzz', <<'EOF'), '2 fuzzers, 30 executions', 'fuzzers';
stat::number_of_executed_units: 10
stat::average_exec_per_sec:     1
stat::number_of_executed_units: 20
EOF
is figures('nginx-tests', "with us 3 files failed, without 3, with us only: "
    . "none, 900 calls to Redis\n"), 'with us 3 files failed, without 3, '
    . 'with us only: none, 900 calls to Redis', 'tests of nginx';

# the output of the tools that are here

local $ENV{MATRIX} = "$dir/matrix";
my ($last) = qx($FindBin::Bin/../matrix/matrix none 2>&1);
like $last, qr/no such system/, 'a system that does not exist';

# sources: where they are, and where there are none

my $matrix = "$FindBin::Bin/../matrix";
($last) = qx(NGINX_SRC= $matrix/matrix nginx-static 2>&1);
like $last, qr/^make: nginx-static: no sources are given$/, 'no sources given';
($last) = qx($matrix/nginx static $dir/none 2>&1);
like $last, qr{none" has no sources of nginx$}, 'nothing is copied';
my $none = join ' ', @{ $stage{angie}{command} };
($last) = qx(cd $FindBin::Bin/../.. && ANGIE_SRC=$dir/none $none 2>&1);
like $last, qr/\Q$dir\E\/none/, 'a stage knows its sources';

# tables

my @stages = @stage{qw(this asan nginx-tests)};
my $table = Proof::Table->new($dir);
$table->keep(asan => { commit => '1234567', result => 'passed',
    figures => '9 files', seconds => 125 });
$table->keep('nginx-tests' => { commit => '1234567', result => 'not run',
    figures => 'NGINX_TESTS not set', seconds => 0 });
is $table->text(@stages), <<'EOF', 'rows that are there';
| stage | commit | result | figures | time |
| --- | --- | --- | --- | --- |
| suite, ASan and UBSan | 1234567 | passed | 9 files | 2:05 |
| nginx's own tests | 1234567 | not run | NGINX_TESTS not set | 0:00 |
EOF
$table->keep(this => { commit => '89abcde', result => 'failed', figures => '-',
    seconds => 3, system => Proof::Stages::row($system) });
$table->keep(asan => { commit => '89abcde', result => 'not run',
    figures => '', seconds => 0 });
like $table->text(@stages), qr/^\| suite, ASan and UBSan \| 1234567 \| passed/m,
    'a row stays';
is $table->compatibility(@stages), <<'EOF', 'systems';
| on x86-64 | nginx | hiredis | Redis, Valkey | test files passed | failed | skipped | commit |
| --- | --- | --- | --- | --- | --- | --- | --- |
| Debian 12 | 1.26.3 | 1.2.0 | Redis 8.0.2 | 502 | 1 | 2 | 89abcde |
EOF

my @systems = grep { $_->{system} } Proof::Stages::all();
my $every = Proof::Table->new("$dir/every");
mkdir "$dir/every";
$every->keep($_->{name} => $table->row('this')) for @systems;
unlike $every->compatibility(@systems), qr/^\|  \|/m, 'each system has a name';

# the command

my $proof = "$FindBin::Bin/../proof/proof";
my $said = qx(PROOF=$dir/out $^X $proof none 2>&1);
is $? >> 8, 2, 'unknown stage refused';
like $said, qr/^make proof: none: no such stage; there are this /, 'named';
$said = qx(NGINX_TESTS= PROOF=$dir/out $^X $proof nginx-tests 2>&1);
is $?, 0, 'without sources: no failure' or diag $said;
like $said, qr/^\| nginx's own tests \| \w+\+? \| not run \|/m, 'but a row';
ok -e "$dir/out/table.md", 'table written';

$t->done;
