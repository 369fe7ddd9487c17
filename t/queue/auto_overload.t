#!/usr/bin/perl

# queue=auto at twice the load that the limit can serve: of all requests fewer
# than 5 % wait for the whole timeout in vain, and no fewer are served than with
# a queue of 200, in which a third of them do. The time is that of the test: the
# clock of the worker stands, and is moved by steps, each of which ends when the
# servers have done all that it brings about.

use lib 't/lib';
use Dsem::Clock;
use Dsem::Test;

# ms; at the backend for two steps, so that three requests are served in each
my ($STEP, $LIMIT, $ARRIVALS) = (25, 6, 6);
my $STEPS = $ENV{DSEM_LONG} ? 400 : 60;

my $t = Dsem::Test->new;
my $clock = Dsem::Clock->new($t, monotonic => 1);
$t->redis;
my $up = $t->upstream;

my $node = $clock->node('n1', <<'EOF_CONF', LIMIT => $LIMIT);
dsem_lease 10m;
add_header X-Dsem $dsem_status always;
location /auto {
    dsem auto limit=%%LIMIT%% queue=auto timeout=300ms;
    proxy_pass http://%%UPSTREAM%%;
}
location /long {
    dsem long limit=%%LIMIT%% queue=200 timeout=300ms;
    proxy_pass http://%%UPSTREAM%%;
}
location /poke { return 204; }
EOF_CONF

wait_for { $t->state->subscribed == 1 } 15, 'the subscription';
$clock->stop;

my %of = map { $_ => overload($_) } qw(long auto);
note "$_: $of{$_}{served} served, $of{$_}{timeout} timed out of $of{$_}{all}"
    for sort keys %of;

cmp_ok $of{long}{timeout}, '>', $of{long}{all} / 4, 'queue=200: many in vain';
cmp_ok $of{auto}{timeout}, '<', 0.05 * $of{auto}{all}, 'queue=auto: few';
cmp_ok $of{auto}{served}, '>=', 0.98 * $of{long}{served}, 'no fewer served';
is $up->peak, $LIMIT, 'limit reached, never exceeded';

$clock->go;
$t->done;

# How many were served, and waited in vain. Those that wait at the end are
# neither.
sub overload {
    my ($name) = @_;
    my (@open, @ended, %since);
    $up->reset;
    for my $step (1 .. $STEPS) {
        push @open, map { $node->begin("/$name?hang=1",
            'X-Nonce' => "$name.$step.$_") } 1 .. $ARRIVALS;
        settled($name, \@open, \@ended);
        $since{$_} //= $step for $up->order;
        $clock->step($STEP / 1000);
        $node->get('/poke');
        my @due = grep { $since{$_} && $since{$_} < $step } keys %since;
        my $served = $up->served + @due;
        $up->release_nonce($_) for @due;
        @since{@due} = (0) x @due;
        wait_for { $up->served == $served } 15, "$name: those that are due";
        settled($name, \@open, \@ended);
        $since{$_} //= $step + 1 for $up->order;
    }
    my @status = map { $_->header('X-Dsem') } @ended;
    wait_for {
        $up->release_all;
        settled($name, \@open, \@ended);
        !@open;
    } 15, 'the end';
    return {
        served => scalar(grep { /PASSED|QUEUED/ } @status),
        timeout => scalar(grep { $_ eq 'TIMEOUT' } @status),
        all => $STEPS * $ARRIVALS,
    };
}

# Each request has ended, waits, or is at the backend, where no permit is free
# beside a waiting one.
sub settled {
    my ($name, $open, $ended) = @_;
    wait_for {
        # asked once: it may be done the next moment
        my %is = map { $_ => $_->done } @$open;
        push @$ended, grep { $is{$_} } @$open;
        @$open = grep { !$is{$_} } @$open;
        my ($now, $waiting) = ($up->now, $t->state->waiting($name));
        @$open == $now + $waiting && ($now == $LIMIT || !$waiting);
    } 15, "$name: all requests of the step";
    return;
}
