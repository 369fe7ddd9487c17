#!/usr/bin/perl

# Another process has a state that is older than a session. While it recovers the
# session learns that: nothing of what it has was granted to others. After that,
# and where there was another process in between, it may have been.

use lib 't/lib';
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;
my $redis = $scripts->redis;

sub save {
    return { map { $_ => $redis->cmd('DUMP', $_) } $scripts->all_keys };
}

sub restore {
    my ($saved) = @_;
    $redis->cmd('FLUSHALL');
    $redis->cmd('RESTORE', $_, 0, $saved->{$_}) for keys %$saved;
}

my $old = $scripts->session('old')->enter;
my $saved = save();

# those that came since then know of each other, and nobody of the last two
my ($one, $two) = map { $scripts->session($_)->enter } qw/one two/;
$_->beat for $old, $one, $two;
my ($last, $later) = map { $scripts->session($_)->enter } qw/last later/;

restore($saved);
is $one->hello(restarted => 1)->{known}, 2, 'older than the first session';
is $one->hello->{known}, 1, 'which is registered from now on';
is $two->hello->{known}, 2, 'older than the second one';
is $scripts->session('new')->hello->{known}, 0, 'not than a new one';
is $old->hello->{known}, 1, 'nor than one that it has';
$_->declared for $one, $two, $old;
is $one->ask('api', 1), 'granted', 'recovered without the last one';
my $reply = $last->hello;
is $reply->{known}, 0, 'which is told that';
cmp_ok $reply->{recovery}, '>', 0, 'and waited for';
is $later->hello->{known}, 0, 'and so is the next one, in that recovery';
is $later->hello->{known}, 1, 'which is registered from now on';
$_->declared for $last, $later;
is $one->ask('api', 2, limit => 2), 'granted', 'recovered with both';

# two processes since the reply to the second session
restore($saved);
$one->hello(restarted => 1) for 1, 2;
is $two->hello->{known}, 0, 'another process in between';

# a pause of all grants, long after a process has taken over
restore($saved);
$one->enter(restarted => 1);
$two->{term} = $one->{term} - 2 ** 20;
$scripts->meta(recover_until => $scripts->meta('clock') + 9000);
$scripts->advance(6000);
is $two->hello->{known}, 0, 'a state that has recovered';

$scripts->done;
