#!/usr/bin/perl

# Errors that come and go, whatever the limit, do not lower it for long. One
# that causes them is not tried again at once.

use lib 't/lib';
use Dsem::Auto;
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;
my @knee = (latency => sub { 50 * ($_[0] > 20 ? $_[0] / 20 : 1) },
    peak => sub { $_[0] });

my $one = $scripts->session('one')->configured('a', {
    map { $_ => '10=1-1000' } qw(third all higher cause less usual) });

sub auto {
    my ($name, %arg) = @_;
    return Dsem::Auto->new($scripts, $name, [ $one ], @knee, %arg);
}

# a third fail for 1 s of 4: what is lower when that ends has not helped
my $auto = auto('third');
$auto->run(25);
my $from = () = $auto->trace;
for (1 .. 20) {
    $auto->set(errors => sub { 0.3 })->run(1);
    $auto->set(errors => sub { 0 })->run(3);
}
my @trace = ($auto->trace)[$from .. $auto->trace - 1];
my $mean = 0;
$mean += $_ / @trace for @trace;
cmp_ok $mean, '>=', 14, 'a third fail at times: as without';

# with one permit some requests show that they fail no more
$auto = auto('all');
$auto->run(25);
$auto->set(errors => sub { 1 });
ok $auto->until(sub { $_[0]{found} <= 2 }, 10), 'all fail: lowered';
$auto->set(errors => sub { 0 });
ok $auto->until(sub { $_[0]{found} >= 14 }, 1), 'none fail: back at once';

# a higher limit is tried when they begin: it has not been judged
$auto = auto('higher');
$auto->run(25);
ok $auto->until(sub { $_[0]{found} > $_[0]{kept} }, 60), 'a higher one: tried';
my $before = $auto->{reply}{kept};
$auto->set(errors => sub { 0.3 });
ok $auto->until(sub { $_[0]{found} < $before }, 10), 'lowered';
is $auto->until(sub { $_[0]{found} >= $before }, 10)->{found}, $before,
    'no help: the limit found, not the one that was tried';

# errors above 25, which go on for a second: half of the limit found is taken,
# too, then the limit found once more; the one that causes them is not
my $until = 0;
$auto = auto('cause', latency => sub { 50 });
$auto->set(errors => sub {
    $until = $auto->{time} + 1000 if $_[0] > 25;
    return $auto->{time} < $until ? 0.8 : 0;
});
ok $auto->until(sub { $_[0]{found} > 25 }, 60), 'a cause';
my ($kept, $cause) = @{ $auto->{reply} }{'kept', 'found'};
ok $auto->until(sub { $_[0]{found} < $kept }, 10), 'lowered below that found';
ok $auto->until(sub { $_[0]{found} == $kept }, 10), 'the limit found again';
$from = () = $auto->trace;
$auto->run(15);
my @above = grep { $_ >= $cause } ($auto->trace)[$from .. $auto->trace - 1];
is @above, 0, 'and not the cause';

# a backend that takes less than before: the limit found causes them, too
$auto = auto('less');
$before = $auto->run(25)->{kept};
$auto->set(errors => sub { $_[0] > 14 ? 0.4 : 0 });
ok $auto->until(sub { $_[0]{found} <= 14 }, 10), 'takes less: lowered';
ok $auto->until(sub { $_[0]{found} > 14 }, 5), 'taken once more';
ok $auto->until(sub { $_[0]{found} <= 14 }, 2), 'fails again: lowered';
$from = () = $auto->trace;
$auto->run(10);
@above = grep { $_ > 14 } ($auto->trace)[$from .. $auto->trace - 1];
cmp_ok @above, '<=', 10, 'and stays there';

# as many as usual, after more of them by chance: nothing fails again
$auto = auto('usual');
$auto->run(25);
my $limit = $auto->until(sub { $_[0]{found} == $_[0]{kept} }, 60)->{found};
$auto->set(errors => sub { 0.12 });
ok $auto->until(sub { $_[0]{found} < $limit
    && $_[0]{reason} eq 'errors' }, 10), 'more than usual: lowered';
$auto->set(errors => sub { 0 });
ok $auto->until(sub { $_[0]{found} == $limit }, 10), 'taken once more';
my $sample = 0;
$auto->set(errors => sub { $sample++ % 2 ? 0.08 : 0.09 })->run(2);
cmp_ok $auto->{reply}{kept}, '>=', $limit, 'usual: it stays';
