#!/usr/bin/perl

# The first session sets the generation, and no recovery begins.

use lib 't/lib';
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;
my $one = $scripts->session('one');

my $reply = $one->hello(gen => 0, fresh => 4711);
is $reply->{status}, 'ok', 'hello accepted';
is $reply->{gen}, 4711, 'fresh generation set';
is $reply->{live}, 1, 'one session lives';
is $reply->{recovery}, 0, 'no recovery';
is $one->declared->{status}, 'ok', 'declared accepted';
is $one->ask('api', 1), 'granted', 'served at once';

my $two = $scripts->session('two');
$reply = $two->hello(gen => 0, fresh => 4712);
is $reply->{gen}, 4711, 'second session keeps generation';
is $reply->{live}, 2, 'two sessions live';
is $reply->{recovery}, 0, 'no recovery for second session';
