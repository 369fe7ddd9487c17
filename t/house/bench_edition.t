#!/usr/bin/perl

# make bench-scale calls both editions by their own contracts: KEYS and ARGV of
# the scripts whose layouts differ.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/../lib", "$FindBin::Bin/../bench";

use Bench::Edition;

my $one = { name => 'a:0:1', epoch => 3, lease => 5000 };

# The words of a command after EVALSHA and the script, as text.
sub words {
    my ($command) = @_;
    my @word = $command =~ /^\$\d+\r\n(.*?)\r\n/mg;
    splice @word, 0, 2 if $word[0] eq 'EVALSHA';
    return join '|', @word;
}

sub edition {
    my ($class) = @_;
    my %sha = map { $_ => 'sha' } @{ Bench::Edition::SCRIPTS() };
    return bless { sha => \%sha }, "Bench::Edition::$class";
}

my %sync = (limit => 10, flags => 1, release => 2, cancel => [ [7, 1] ],
    acquire => [ [8, 1, 0, 100], [9, 2, -1, 100] ], check => [ [6, 1] ]);

my $first = edition('First');
is words($first->sync($one, 'api', %sync)), '6|dsem:{0}|dsem:{0}:sessions|'
    . 'dsem:{0}:epochs|dsem:{0}:orders|dsem:{0}:s:api|dsem:{0}:q:api|'
    . 'a:0:1|3|1|1|api|10|1|2|1|2|1|7|1|8|1|0|100|9|2|-1|100|6|1',
    'first: sync';
is words($first->beat($one)), '4|dsem:{0}|dsem:{0}:sessions|'
    . 'dsem:{0}:epochs|dsem:{0}:census|a:0:1|3|1|1|5000', 'first: beat';
is words($first->order('api', '- 1')), 'HSET|dsem:{0}:orders|api|- 1',
    'first: order';
is $first->decode([ 'a:0:1', 3, 1, 0, 0 .. 6, 1 ])->{more}, 0,
    'first: never more';

my $second = edition('Second');
is words($second->sync($one, 'api', %sync)),
    '3|dsem:{0}|dsem:{0}:s:api|dsem:{0}:q:api|'
    . 'a:0:1|3 1 1 10 1 2 1 2 1|api|7 1|8 1 0 100|9 2 -1 100|6 1',
    'second: sync';
is words($second->beat($one)), '4|dsem:{0}|dsem:{0}:sessions|'
    . 'dsem:{0}:census|dsem:{0}:idle|a:0:1|3|1|1|5000|', 'second: beat';
is words($second->bye($one, { name => 'b:0:2' }, 2000)),
    '3|dsem:{0}|dsem:{0}:sessions|dsem:{0}:census|a:0:1|3|1|b:0:2|2000',
    'second: bye';
is words($second->declare($one, 'api', limit => 5, held => 1,
    tickets => [ [4, 1, 0, 2] ])),
    '3|dsem:{0}|dsem:{0}:s:api|dsem:{0}:q:api|a:0:1|3|1|5|1|0|1|4|1|0|2',
    'second: declare';
is words($second->configure({ %$one, config => 'f0' }, 0, 1, api => 5)),
    '1|dsem:{0}|a:0:1|3|1|f0|0|1|1|api|5', 'second: configure';
is words($second->order('api', '- 1')), 'HSET|dsem:{0}|order:api|- 1',
    'second: order';
my $reply = $second->decode([ 'a:0:1', 3, 1, 0, 10, 20, 30, 0, 4, 5, 1, 1 ]);
is_deeply [ @$reply{qw(in_use limit waiting held own_waiting may_keep more)} ],
    [ 10, 20, 30, 4, 5, 1, 1 ], 'second: reply of sync';

done_testing();
