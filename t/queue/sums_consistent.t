#!/usr/bin/perl

# The sums of a semaphore, permits held and tickets waiting, equal its accounts
# and its queue at every moment: under load, with client aborts, timeouts,
# weights and lost connections.

use lib 't/lib';
use Dsem::Test;

my $LOOKS = $ENV{DSEM_LONG} ? 9000 : 400;
my $LIMIT = 6;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $up = $t->upstream(service => 0.010);

my @fleet = $t->fleet(2, <<'EOF_CONF');
worker_processes 2;
dsem_log_level info;
location /counted {
    dsem api limit=6 queue=30 timeout=80ms weight=$arg_weight;
    proxy_set_header X-Weight $arg_weight;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

my ($looked, $full, $queued, @wrong) = (0, 0, 0);

# all at one time: the sums, the accounts, the tickets in the queue
sub look {
    my ($of, $accounts, $queue, $entries) = @{ $t->state->snapshot('api') }{
        qw(figures accounts queue entries) };
    return unless %$of;
    my ($held, $waiting, %tickets) = (0, 0);
    $tickets{ join ' ', (split)[0, 1] }++ for @$queue;
    for my $session (keys %$accounts) {
        my ($epoch, $h, $w) = @{ $accounts->{$session} }{
            qw(epoch held waiting) };
        $held += $h;
        $waiting += $w;
        # leftovers of an older epoch count as nothing, but still exist
        next if $epoch < ($entries->{$session}{epoch} // 0);
        push @wrong, "$session: $w waiting, not in the queue"
            if $w != ($tickets{"$session $epoch"} // 0);
    }
    push @wrong, "$of->{held} held, $held in the accounts"
        if $of->{held} != $held;
    push @wrong, "$of->{waiting} waiting, $waiting in the accounts"
        if $of->{waiting} != $waiting;
    push @wrong, "$of->{held} held" if $of->{held} > $LIMIT || $of->{held} < 0;
    $looked++;
    $full++ if $of->{held} == $LIMIT;
    $queued++ if $waiting;
}

my $load = $t->load_start(clients => 40, seconds => 3600,
    request => sub {
        my ($i) = @_;
        my $weight = (1, 1, 2, 3)[ $i % 4 ];
        return $fleet[ $i % 2 ]->url("/counted?weight=$weight");
    },
    abort => sub { rand() < 0.3 ? rand 0.1 : undef });
wait_for { $up->now == $LIMIT } 15, 'load';
# three times, with load after it: what an older epoch left is only looked for
# where permits are wanted
for my $part (1 .. 4) {
    my $served = $up->served;
    wait_for {
        look() for 1 .. 25;
        $looked >= $part * $LOOKS / 4 && $full >= $part * $LOOKS / 40
            && $queued >= $part * $LOOKS / 40 && $up->served >= $served + 10;
    } 60, 'many looks';
    $redis->client_kill if $part < 4;
}
my %status = %{ $load->stop->wait->{statuses} };

is_deeply \@wrong, [], 'sums equal accounts' or diag "$looked looks";
cmp_ok $looked, '>=', $LOOKS, 'sampled often';
cmp_ok $full, '>=', $LOOKS / 10, 'sampled with limit reached';
cmp_ok $queued, '>=', $LOOKS / 10, 'sampled with queue';
cmp_ok $status{$_} // 0, '>', 10, "many $_" for 200, 503, 'aborted';
is $up->peak, $LIMIT, 'limit reached, never exceeded';
note "$looked looks, $full full, $queued with a queue; ",
    join ', ', map { "$_ $status{$_}" } sort keys %status;
eventually { !$t->state->exists('api') } 'nothing left';

$t->done;
