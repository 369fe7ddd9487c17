#!/usr/bin/perl

# Every message begins with the seal that the last hello of its session has
# sent: on the short paths of sync and on the long one, to one session and to
# many.

use lib 't/lib';
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;
my $one = $scripts->session('one')->enter->listen;
my $two = $scripts->session('two')->enter;
my @all = ($one, $two);

sub sealed {
    my ($what, $expected) = @_;
    my @got = $one->all_messages;
    like $got[-1] // '', qr/^$expected\b/, "$what: sent";
    my $seal = $scripts->state->entry($one->name)->{seal};
    is delete $one->{last_seal}, $seal, "$what: with the seal";
    is $seal, $one->{seals}[-1], "$what: of the last hello";
}

for my $epoch (1, 2) {
    $one->enter if $epoch > 1;
    is $one->epoch, $epoch, "epoch $epoch";
    $one->beat;
    sealed('heartbeat', 'beat');
    push @all, $scripts->session("more$epoch")->enter;
    sealed('new session', 'sessions');

    # a check goes the long way
    for ([ plain => 0 ], [ keyed => 0, 9, 'key' ], [ 'long' => 1 ]) {
        my ($name, $check, @key) = @$_;
        $two->sync($name, limit => 1, ask => [ [ 1, 1, 0, 9, @key ] ]);
        $one->sync($name, limit => 1, ask => [ [ 2, 1, 0, 9, @key ] ]);
        $two->sync($name, limit => 1, ask => [ [ 3, 1, 0, 9, @key ] ],
            release => 1, check => [ ([9]) x $check ]);
        sealed("$name grant", 'grant');
        $scripts->redis->cmd('DEL', $scripts->state->semaphore_keys($name),
            $scripts->state->fair_key($name));
    }

    $one->sync('idle', limit => 1, ask => [ [1] ], keep => 1);
    $two->ask('idle', 2, limit => 1, queue => 9);
    sealed('recall', 'recall');
    $scripts->redis->cmd('DEL', $scripts->state->semaphore_keys('idle'));

    $two->ask('full', 1, limit => 1);
    $one->sync('full', limit => 1, ask => [ [ 2, 1, 0, 1, 99999, 'slow' ] ]);
    $one->sync('full', limit => 1, ask => [ [ 3, 1, 0, 2, 99999, 'slow' ] ]);
    $two->sync('full', limit => 1, ask => [ [ 4, 1, 0, 2, 1, 'quick' ] ]);
    sealed('drop', 'drop');
    $scripts->redis->cmd('DEL', $scripts->state->semaphore_keys('full'),
        $scripts->state->fair_key('full'));
}

$_->hello(restarted => $_ == $one) for @all;
$_->declared for @all;
sealed('end of recovery', 'recovered');
