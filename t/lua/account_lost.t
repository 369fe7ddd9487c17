#!/usr/bin/perl

# Only a semaphore's accounts were lost, and are begun again, while its queue
# has tickets of the same epoch: a grant of such a ticket takes nothing from
# tickets that the account does not count.

use lib 't/lib';
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;
my $state = $scripts->state;

for my $owner (qw/other own/) {
    my ($name, $one, $two) = ("of-$owner",
        map { $scripts->session("$_-$owner")->enter } qw/one two/);
    is $one->ask($name, 1), 'granted', "$owner: out";
    is $two->ask($name, 1), 'queued', "$owner: first one waits";
    is $one->ask($name, 2), 'queued', "$owner: second one waits";
    my $waits = $owner eq 'own' ? $one : $two;
    # an account is not empty: it has what was granted meanwhile
    my $held = $owner eq 'own' ? 1 : 0;
    $two->sync($name, cancel => [[1]]) if $owner eq 'own';
    $state->set_account($name, $waits->name, 1, $held, 0);
    $one->sync($name, release => 1);
    my $account = $state->account($name, $waits->name);
    is_deeply [ @$account{qw/held waiting/} ], [ 1, 0 ],
        "$owner: account counts no less than nothing";
    my $sum = 0;
    $sum += $_->{held} for values %{ $state->accounts($name) };
    is $state->held($name), $sum, "$owner: sum of the accounts";
    $scripts->redis->cmd('FLUSHALL');
}
