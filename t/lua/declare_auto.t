#!/usr/bin/perl

# Of limit=auto sessions declare with the limits that they have seen last, which
# differ. While the state recovers permits below the largest one that was stated
# are no overage, whichever session comes first. Of a plain limit the first one
# counts. When the state has recovered the number in force is stored.

use lib 't/lib';
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;
my $state = $scripts->state;
my %limits = (api => '10=1-1000', plain => 10);
my @sessions = map { $scripts->session($_) } qw/one two three/;
my ($one, $two, $three) = @sessions;

$one->hello(gen => 99, config => 'a');
$one->state_limits('a', \%limits);
$_->hello(config => 'a') for $two, $three;

is $one->declare($_, limit => 10, held => 1)->{over}, 0, "$_: the first"
    for qw/api plain/;
is $two->declare('api', limit => 80, held => 60)->{over}, 0,
    'more than the first has seen';
is $two->declare('plain', limit => 80, held => 60)->{over}, 51,
    'plain: the first limit counts';
$two->declared;
is $two->sync('api', literal => 1, limit => 10, release => 1)->{limit}, 10,
    'the number in force is replied';
is $three->declare('api', limit => 12, held => 1)->{over}, 0,
    'a late one has seen less, too';
is $three->declare('api', limit => 12, held => 30)->{over}, 10,
    'more than any has seen is an overage';
is $state->limit('api'), 80, 'the largest one is stored';

$_->declared for $one, $three;
$scripts->pass(5000, @sessions);
is $two->sync('api', literal => 1, limit => 10, release => 1)->{limit}, 10,
    'recovered: the number in force';
is $state->limit('api'), 10, 'which is stored';
is $two->declare('api', limit => 80, held => 58)->{over}, 79,
    'and by which later declarations are judged';
