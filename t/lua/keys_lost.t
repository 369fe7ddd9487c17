#!/usr/bin/perl

# Each key of the shard is lost in turn, and the queue: the limit holds, all
# permits in use are declared again, and those of a dead session return.

use lib 't/lib';
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;
my $redis = $scripts->redis;
my $state = $scripts->state;
my %shard = $state->shard_keys;
my %lost = (%shard, queue => $state->queue_key('api'),
    census => $state->census_key);

for my $what (sort keys %lost) {
    $redis->cmd('FLUSHALL');
    my ($one, $two, $dead) =
        map { $scripts->session($_)->enter } qw/one two dead/;
    $_->ask('api', 1, limit => 3) for $one, $two, $dead;
    $two->ask('api', 2, limit => 3);
    my $place = $two->{asked}{asked}{2}{place};
    $_->beat for $one, $two;
    $redis->cmd('DEL', $lost{$what});

    if ($what eq 'census') {
        is $one->beat->{live}, 3, 'census: nothing lost';
        is $two->ask('api', 3, limit => 3), 'queued', 'census: limit kept';
        next;
    }
    # the queue and the index are missed by different commands
    my @status = map { $_->{status} } $one->sync('api', limit => 3,
        ask => [ [ 5, 1, 0, 9 ] ]), $one->beat, $two->beat;
    is $status[2], 'resync', "$what: loss seen";
    cmp_ok $one->hello->{recovery}, '>', 0, "$what: state recovers";
    my $new = $scripts->session('new')->enter;
    is $new->ask('api', 9, limit => 3, queue => 9), 'recovering',
        "$what: the others have to declare";
    for ($one, $two) {
        $_->hello;
        $_->declare('api', limit => 3, held => 1,
            tickets => $_ == $two ? [ [ 2, 1, $place ] ] : []);
        $_->declared;
    }
    is $new->ask('api', 10, limit => 3, queue => 9), 'recovering',
        "$what: the dead session is waited for";
    $scripts->pass(6000, $one, $two, $new);
    my $reply = $two->sync_all('api', 9, limit => 3, check => [ [2] ]);
    is $state->account('api', $two->name)->{held}, 2,
        "$what: permit of the dead session returns";
    is $reply->{in_use}, 3, "$what: all permits in use";
    is $one->ask('api', 11, limit => 3, queue => 9), 'queued',
        "$what: and not more";
    $one->sync('api', release => 1, cancel => [ [11] ], limit => 3);
    $two->sync('api', release => 2, limit => 3);
    is $state->held('api'), 0, "$what: no permit leaks";
}

# without its index a hello does not go on with the shard
$redis->cmd('FLUSHALL');
my $one = $scripts->session('one')->enter;
$one->ask('api', 1);
$redis->cmd('DEL', $shard{sessions});
cmp_ok $one->hello->{recovery}, '>', 0, 'hello: state recovers';
is $one->sync('api')->{status}, 'ok', 'hello: new state';
is $scripts->session('new')->enter->ask('api', 2), 'recovering',
    'hello: limit kept';
