#!/usr/bin/perl

# The node that is named as asking for the lowest limit has it: one that has left
# the configuration, in whatever way, is named no more while others have it.

use lib 't/lib';
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;
my $one = $scripts->session('one')->configured('20', { api => 20 })->listen;
my ($kept, @two);

my %way = (
    'exiting workers' => sub { $_[0]->configure('-') },
    bye => sub { $_[0]->bye },
    reload => sub { $_[0]->configured('20', { api => 20 }) },
);
for my $way (sort keys %way) {
    begin();
    is named(), 'two', "$way: the last that came";
    $way{$way}->($_) for @two;
    is named(), 'zero', "$way: another node";
    is_deeply disagreeing($two[1]), [ 20 ], "$way: and its own limit"
        if $way eq 'reload';
    $_->bye for $kept, @two;
}

begin();
$scripts->pass(6000, $one, $kept);
is named(), 'zero', 'leases over: another node';
$kept->bye;

# 512 are read, those with the most of their leases left
begin();
$scripts->advance(1000);
my @crowd = map { $scripts->session("crowd$_")->configured('20', { api => 20 }) }
    1 .. 520;
$_->beat for @two;
$two[0]->configure('-');
is named(), 'two', 'the other one is not found: the same node again';
$two[1]->configure('-');
is named(), undef, 'nor any: none is named';
$scripts->session('three')->configured('10', { api => 10 });
is named(), 'three', 'the next that comes';

$scripts->done;

# Two nodes ask for 10.
sub begin {
    $kept = $scripts->session('zero')->configured('10', { api => 10 });
    @two = map { $scripts->session('two')->configured('10', { api => 10 }) }
        1, 2;
}

# The node in the message to the one that asks for 20.
sub named {
    $one->sync('api', limit => 20, literal => 1, asks_node => 1);
    my ($node) = map { /^limit api 1 10 (\S+)$/ } $one->messages;
    return $node;
}

# Limits of others, as the API has them.
sub disagreeing {
    my ($session) = @_;
    return [ map { $_->[0] }
        @{ $session->inspect([ 'api' ])->{semaphores}[0]{asks} } ];
}
