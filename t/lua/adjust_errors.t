#!/usr/bin/perl

# Failing requests lower the limit, and it stays below the one that caused them;
# not where they fail at any limit.

use lib 't/lib';
use Dsem::Auto;
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;
my $state = $scripts->state;
my $one = $scripts->session('one')->configured('a', { api => '10=1-1000',
    web => '10=2-1000', app => '10=1-1000', gone => '40=1-1000' });

# none up to 30
my $auto = Dsem::Auto->new($scripts, 'api', [ $one ],
    errors => sub { $_[0] > 30 ? 0.5 : 0 });
my $reply = $auto->until(sub { $_[0]{reason} eq 'errors' }, 30);
ok $reply, 'errors found';
cmp_ok $reply->{found}, '<=', 30, 'lowered at once';
$reply = $auto->until(sub { $_[0]{found} == 30 }, 30);
ok $reply, 'raised up to the errors';
$auto->until(sub { $_[0]{found} == 31 }, 30);
$auto->until(sub { $_[0]{found} == 30 }, 5);
my $from = () = $auto->trace;
$auto->run(10);
my @above = grep { $_ > 30 } ($auto->trace)[$from .. $from + 90];
is @above, 0, 'and not beyond';
ok $auto->until(sub { $_[0]{found} > 30 }, 30), 'tried again later';
ok $auto->until(sub { $_[0]{found} <= 30 }, 1), 'lowered again';
$auto->set(errors => sub { 0 });
ok $auto->until(sub { $_[0]{found} > 40 }, 60), 'no more errors: raised';

# a few are usual
$auto = Dsem::Auto->new($scripts, 'web', [ $one ], errors => sub { 0.04 },
    latency => sub { 50 * ($_[0] > 20 ? $_[0] / 20 : 1) });
$auto->run(30);
cmp_ok $auto->found, '>=', 15, 'few errors: like none';

# all of a sudden, whatever the limit
$auto->set(errors => sub { 0.7 });
ok $auto->until(sub { $_[0]{found} < 15 }, 10), 'errors at any limit: lowered';
ok $auto->until(sub { $_[0]{found} > 15 }, 10), 'no help: back';
$auto->run(5);
cmp_ok $auto->found, '>=', 15, 'left alone';

# by chance, as often at any limit: a page that is broken
for my $chance (0.04, 0.07, 0.12) {
    my $name = 'page' . 100 * $chance;
    srand 1;
    $auto = Dsem::Auto->new($scripts, $name, [ $scripts->session($name)
        ->configured('d' . 100 * $chance, { $name => '20=1-1000' }) ],
        chance => $chance, latency => sub { 50 * ($_[0] > 20 ? $_[0] / 20 : 1) });
    $auto->run(60);
    my @trace = $auto->trace;
    my $mean = 0;
    $mean += $_ / @trace for @trace;
    cmp_ok $mean, '>=', 16, "$chance: as without";
}

# the limit that caused errors is the one in force, as the least one was so high
$auto = Dsem::Auto->new($scripts, 'least', [ $scripts->session('least')->enter ],
    errors => sub { $_[0] > 30 ? 0.4 : 0 }, min => 10);
$auto->until(sub { $_[0]{found} > 30 }, 60);
ok $auto->until(sub { $_[0]{found} <= 30 }, 10), 'lowered';
my ($ceiling) = $scripts->redis->cmd('HGET', $state->auto_key('least'), '.')
    =~ /^(?:\S+ ){13}(\d+) /;
is $auto->set(min => $ceiling)->step->{found}, $ceiling, 'the least one';
$auto->set(min => 10);
is $auto->until(sub { $_[0]{reason} eq 'errors' }, 10)->{found}, $ceiling - 1,
    'lowered by one';

# the requests end as soon as the limit is lowered
$auto = Dsem::Auto->new($scripts, 'gone', [ $one ], errors => sub { 0.5 });
$reply = $auto->until(sub { $_[0]{reason} eq 'errors' }, 30);
ok $reply, 'errors: lowered';
$auto->set(used => 0);
is $auto->run(15)->{found}, $reply->{found}, 'no requests: nothing is judged';
$auto->set(used => 1);
ok $auto->until(sub { $_[0]{found} < $reply->{found} }, 5), 'requests: judged';

# nothing but errors
$auto = Dsem::Auto->new($scripts, 'app', [ $one ], errors => sub { 1 });
$reply = $auto->run(5);
is $reply->{latency}, 0, 'no latency known';
cmp_ok $reply->{found}, '>=', 1, 'a limit';
