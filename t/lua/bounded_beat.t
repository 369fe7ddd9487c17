#!/usr/bin/perl

# Each of the 64 sessions that a beat removes may be of a node that is named as
# one that has its configuration. The beat reads the other sessions once, and
# names another node where there is one.

use lib 't/lib';
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;
my @OWN = map { "own$_" } 1 .. 64;
my $reader = $scripts->session('reader')
    ->configured('20', { map { $_ => 20 } 'api', @OWN })->listen;

# a node with many workers

$scripts->advance(1000);
my @crowd = map { enter("n$_", 'api') } 1 .. 450;
my @big = map { enter('big', 'api') } 1 .. 130;
is named('api'), 'big', 'the last that came is named';
lapse(@big);
removes(64, 'of one node');
like named('api'), qr{^n\d+$}, 'another node is named';
removes(64, 'more of it');
removes(2, 'all of it');
$_->bye for @crowd;

# many nodes with two workers and a configuration of their own

my @first = map { enter($_, $_) } @OWN;
my @second = map { enter($_, $_) } @OWN;
lapse(@first);
removes(64, 'of as many nodes');
is named('own7'), 'own7', 'a node with another worker is named';

# one node of two

my $other = enter('other', 'api');
my @pair = map { enter('pair', 'api') } 1 .. 3;
is named('api'), 'pair', 'the last that came is named';
$pair[0]->bye;
is named('api'), 'other', 'the node that has not lost a worker';
$other->bye;
is named('api'), 'pair', 'the only one';
$pair[1]->bye;
is named('api'), 'pair', 'the only one, and it has lost a worker';

$scripts->done;

# A session that asks for 10 of this name.
sub enter {
    my ($node, $name) = @_;
    my $id = "f" . $name =~ s{\D}{}gr;
    return $scripts->session($node)->configured($id, { $name => 10 });
}

# Their leases have expired.
sub lapse { $scripts->state->lapse(map { $_->name } @_) }

sub removes {
    my ($n, $what) = @_;
    my $beat;
    my $calls = $scripts->calls(sub { $beat = $reader->beat });
    is $beat->{removed}, $n, "$what: sessions removed";
    cmp_ok $calls->{zrange} // 0, '<=', 1, "$what: sessions listed once";
    cmp_ok $calls->{hmget}, '<=', 5, "$what: entries read once";
}

# The node that has the lower limit, as the one that asks for 20 reads it.
sub named {
    my ($name) = @_;
    $reader->sync($name, limit => 20, literal => 1, asks_node => 1);
    my ($node) = map { /^limit \S+ 1 \d+ (\S+)$/ } $reader->messages;
    return $node;
}
