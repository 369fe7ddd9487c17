#!/usr/bin/perl

# More requests fail by chance, and the limit is lowered. Then as many fail as
# usual, at the lower limit and at the one of before: that stays, and later ones by
# chance do not lower it. Where none fail at the lower one, it is lowered.

use lib 't/lib';
use Dsem::Auto;
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;
my $one = $scripts->session('one')->configured('a',
    { api => '10=1-1000', web => '10=1-1000', app => '10=1-1000' });

# lowered by errors of this part of the requests; the limit of before
sub lowered {
    my ($name, $errors) = @_;
    my $auto = Dsem::Auto->new($scripts, $name, [ $one ], peak => sub { $_[0] },
        latency => sub { 50 * ($_[0] > 20 ? $_[0] / 20 : 1) });
    $auto->run(25);
    my $limit = $auto->until(sub { $_[0]{found} == $_[0]{kept} }, 10)->{found};
    $auto->set(errors => sub { $errors });
    ok $auto->until(sub { $_[0]{found} < 0.8 * $limit
        && $_[0]{reason} eq 'errors' }, 10), "$name: lowered";
    return $auto, $limit;
}

my ($auto, $limit) = lowered('api', 0.25);
my $lower = $auto->{reply}{found};
$auto->set(errors => sub { $_[0] > $lower ? 0.15 : 0.1 });
ok $auto->until(sub { $_[0]{found} > $lower }, 10), 'taken once more';
$limit = $auto->{reply}{found};
ok !$auto->until(sub { $_[0]{kept} < $limit }, 10), 'as many fail: it stays';
$auto->set(errors => sub { 0.25 })->run(1);
is $auto->{reply}{kept}, $limit, 'more by chance: it stays';

($auto, $limit) = lowered('web', 0.25);
$lower = $auto->{reply}{found};
$auto->set(errors => sub { $_[0] > $lower ? 0.25 : 0 });
ok $auto->until(sub { $_[0]{found} > $lower }, 10), 'taken once more';
ok $auto->until(sub { $_[0]{found} <= $lower }, 5), 'more fail: lowered';

# fewer at that of before, than by chance, but none at the lower one
($auto, $limit) = lowered('app', 0.45);
$lower = $auto->{reply}{found};
$auto->set(errors => sub { $_[0] > 0.8 * $limit ? 0.2 : 0 });
ok $auto->until(sub { $_[0]{found} > $lower }, 10), 'taken once more';
$auto->run(10);
cmp_ok $auto->{reply}{kept}, '<=', 0.8 * $limit, 'some fail: lowered';
