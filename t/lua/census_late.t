#!/usr/bin/perl

# A session that registered right before the loss, so that others did not know
# of it, comes after the end of the recovery: nothing is granted until it has
# declared.

use lib 't/lib';
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;

sub old {
    my ($node, $told) = @_;
    return $scripts->session($node), gen => 99, told => $told, age => 100;
}

my @known = map { my ($session, %arg) = old($_, 2); $session->enter(%arg) }
    qw/one two/;
is $known[0]->ask('free', 1), 'granted', 'recovery is over';

my ($late, %late) = old('late', 3);
cmp_ok $late->hello(%late)->{recovery}, '>', 3000, 'recovery begins again';
is $known[0]->ask('api', 2), 'recovering', 'no grant';
$late->declare('api', held => 1, limit => 1);
is $late->declared->{recovery}, 0, 'ends with declared';
is $known[0]->ask('api', 3, limit => 1), 'queued', 'late permit counted';

# a connection that breaks is no reason
$_->hello for @known;
is $late->ask('free', 4, limit => 9), 'granted', 'known ones reconnect';
$_->declared for @known;

# one more that knows of a session that has not come
my ($later, %later) = old('later', 5);
$later->enter(%later);
is $late->ask('free', 5, limit => 9), 'recovering', 'fifth session missing';
