#!/usr/bin/perl

# Another process has taken over, and a new session comes before others have
# noticed. These still receive messages, but none about the new session: with its
# number the census would wait for more sessions than were registered.

use lib 't/lib';
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;

my @old = map { $scripts->session($_)->enter } qw/one two three/;
my ($one, @late) = @old;
$_->beat, $_->listen for @old;

$one->enter(restarted => 1);
$scripts->session('new')->enter;
is_deeply [ $one->all_messages ], ['sessions 4'], 'sent after hello';
for my $session (@late) {
    ($session->{told}) = map { /^sessions (\d+)/ } $session->all_messages,
        "sessions $session->{told}";
    $session->enter;
}
is $one->ask('api', 1), 'granted', 'all declared';
