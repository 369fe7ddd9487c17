#!/usr/bin/perl

# A limit that was lowered because of errors, and not yet judged, is not the one
# found where an order or a pause, a lower limit of another node or other bounds
# end the judgement.

use lib 't/lib';
use Dsem::Auto;
use Dsem::Scripts;

my $FOUND = 64;

my $scripts = Dsem::Scripts->new;
my @names = qw/pause order plain bounds/;
my $one = $scripts->session('one')->configured('a',
    { map { $_ => "$FOUND=4-1000" } @names });
my $other = $scripts->session('other')->configured('b',
    { bounds => "$FOUND=30-1000" });

my %stop = (
    pause => sub { $one->order('pause', '-', 1) },
    order => sub { $one->order('order', 5, 0) },
    plain => sub { $scripts->session('less')->configured('c', { plain => 2 }) },
    bounds => sub { $_->bye, $other->beat for $one }
);

for my $name (@names) {
    my $auto = Dsem::Auto->new($scripts, $name, [ $one ],
        errors => sub { 1 }, min => 4);
    ok $auto->until(sub { $_[0]{found} < 10 }, 10), "$name: lowered";
    $stop{$name}->();
    my $reply = ($name eq 'bounds' ? $other : $one)->adjust($name, min => 4);
    is $reply->{found}, $FOUND, 'the limit found before';
}

$scripts->done;
