#!/usr/bin/perl

# A search ends with the steps that its turns can show. Of requests whose times
# vary much that is a longer step than a tenth, and a still longer one follows
# after a rest. Traffic that changes from turn to turn ends it no sooner, as
# long steps in such traffic go far away by chance.

use lib 't/lib';
use Dsem::Auto;
use Dsem::Scripts;

my ($scripts, $number) = (Dsem::Scripts->new, 0);

for ([ 0, '20 3 40 14 24 18 22' ], [ 1.5, '20 3 40 14 24 18 26' ]) {
    my ($scatter, $expected) = @$_;
    my @seen;
    auto(scatter => $scatter)->until(sub {
        my ($found, $kept) = @{ $_[0] }{qw/found kept/};
        push @seen, $found if $found != $kept && $found != ($seen[-1] // 0);
        return @seen == 7;
    }, 30);
    is "@seen", $expected, "scatter $scatter: limits that are tried";
}

# samples at the limit found without another one between them, at most
my ($names, $longest) = (12, 0);
for my $seed (1 .. $names) {
    srand $seed;
    my ($rest, $most) = (0, 0);
    auto(noise => 0.8)->run(20, sub {
        $rest = $_[0]{found} == $_[0]{kept} ? $rest + 1 : 0;
        $most = $rest if $rest > $most;
    });
    $longest += $most / $names;
}
cmp_ok $longest, '<=', 18, 'traffic that changes: the search goes on';

# A knee at 20.
sub auto {
    my (%arg) = @_;
    my $name = 'n' . ++$number;
    my $noise = $arg{noise} // 0;
    return Dsem::Auto->new($scripts, $name, [ $scripts->session($name)
        ->configured("c$number", { $name => '10=1-1000' }) ], %arg,
        latency => sub {
            my ($limit) = @_;
            return exp($noise * (rand(2) - 1)) * 50
                * ($limit > 20 ? $limit / 20 : 1);
        });
}
