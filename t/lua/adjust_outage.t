#!/usr/bin/perl

# An outage: the limit is not raised while all requests fail, or nearly all, and
# is the one of before within seconds when they are answered again.

use lib 't/lib';
use Dsem::Auto;
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;
my $one = $scripts->session('one')->configured('a', { api => '10=1-1000',
    web => '10=1-1000', app => '10=1-1000', job => '10=1-1000' });
# failed requests have no time by which the limit is seen to be used
my @knee = (latency => sub { 50 * ($_[0] > 20 ? $_[0] / 20 : 1) },
    peak => sub { $_[0] });

sub back {
    my ($auto, $before, $name) = @_;
    $auto->set(errors => sub { 0 }, chance => 0);
    ok $auto->until(sub { $_[0]{found} >= 0.8 * $before }, 5), "$name: back";
}

sub not_raised {
    my ($auto, $before, $from, $name) = @_;
    my @trace = $auto->trace;
    my ($most) = sort { $b <=> $a } @trace[$from + 1 .. $#trace];
    cmp_ok $most, '<=', $before * 1.25, "$name: not raised";
}

my $auto = Dsem::Auto->new($scripts, 'api', [ $one ], @knee);
for my $seconds (3, 60) {
    my $before = $auto->run(25)->{kept};
    cmp_ok abs($before - 20), '<=', 4, "$seconds s: the limit of before";
    my $from = () = $auto->trace;
    $auto->set(errors => sub { 1 })->run($seconds);
    not_raised($auto, $before, $from, "$seconds s");
    back($auto, $before, "$seconds s");
}

# the few good ones are no judgement
$auto = Dsem::Auto->new($scripts, 'web', [ $one ], @knee);
my $before = $auto->run(25)->{kept};
srand 1;
my $from = () = $auto->trace;
$auto->set(chance => 0.97)->run(120);
not_raised($auto, $before, $from, 'nearly all fail');
back($auto, $before, 'nearly all fail');

# it ends while the limit is on its way down: it had nothing to do with load.
# The first requests that are judged are all of the outage.
$auto = Dsem::Auto->new($scripts, 'app', [ $one ], @knee);
my $found = $auto->run(25)->{found};
$auto->until(sub { $_[0]{found} != $found }, 10);
$before = $auto->{reply}{kept};
$auto->set(errors => sub { 1 });
ok $auto->until(sub { $_[0]{found} <= $before / 4 }, 5), 'on its way: lowered';
back($auto, $before, 'on its way');
$auto->run(5);
cmp_ok $auto->{reply}{kept}, '>=', 0.8 * $before, 'on its way: it is kept';

# a lower limit ends the errors: the one of before is taken once more, no longer
my $from_here = () = $auto->trace;
$before = $auto->{reply}{kept};
$auto->set(errors => sub { $_[0] > 0.6 * $before ? 1 : 0 })->run(15);
my @trace = ($auto->trace)[ $from_here + 1 .. $#{ $auto->{trace} } ];
my $above = grep { $_ > 0.6 * $before } @trace[ $#trace / 2 .. $#trace ];
is $above, 0, 'errors at the limit: a lower one';
cmp_ok scalar(grep { $trace[$_] > $trace[ $_ - 1 ] && $trace[$_] >= 0.8 * $before }
    1 .. $#trace), '>=', 1, 'once more the one of before';

# a higher limit is tried when it begins: that is not the limit of before
$auto = Dsem::Auto->new($scripts, 'job', [ $one ], @knee);
$auto->run(25);
ok $auto->until(sub { $_[0]{found} > $_[0]{kept} }, 60), 'a higher one: tried';
$before = $auto->{reply}{kept};
is $auto->set(errors => sub { 1 })->run(60)->{found}, $before,
    'a higher one: not taken';
back($auto, $before, 'a higher one');
