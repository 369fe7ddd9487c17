#!/usr/bin/perl

# A wall below the first limit, and a third of it that shows nothing at first:
# all requests become quicker meanwhile, or some fail there. It is tried again,
# but not for ever.

use lib 't/lib';
use Dsem::Auto;
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;

sub auto {
    my ($name, %arg) = @_;
    return Dsem::Auto->new($scripts, $name, [ $scripts->session($name)
        ->configured($name, { $name => '10=1-1000' }) ], %arg);
}

sub wall { $_[0] > 7 ? 300 : 50 }

# Times at which a third of the limit is tried.
sub tries {
    my ($tries, $before) = (0, 10);
    for my $limit ($_[0]->trace) {
        $tries++ if $limit == 3 && $before != 3;
        $before = $limit;
    }
    return $tries;
}

my $slow;
$slow = auto('a', latency => sub {
    my ($limit) = @_;
    return ($slow && tries($slow) ? 1 : 3) * wall($limit);
});
$slow->run(60);
cmp_ok $slow->{reply}{kept}, '<=', 7, 'quicker meanwhile: the wall is found';
cmp_ok $slow->{reply}{kept}, '>=', 5, 'not far below';

my $fails;
$fails = auto('b', latency => \&wall,
    errors => sub { $_[0] < 10 && tries($fails) < 2 ? 0.3 : 0 });
$fails->run(60);
cmp_ok $fails->{reply}{kept}, '<=', 7, 'some fail once: the wall is found';
cmp_ok $fails->{reply}{kept}, '>=', 5, 'not far below';

# they always fail there
my $always = auto('c', errors => sub { $_[0] < 10 ? 0.3 : 0 });
ok $always->until(sub { $_[0]{kept} > 20 }, 60), 'some always fail';
is tries($always), 3, 'three times';
