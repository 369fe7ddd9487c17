#!/usr/bin/perl

# The timeout is about as long as the wait, so that permits are granted to
# requests that time out. A refused request never reaches the backend, a served
# request always did, and every permit is returned, however late the message.

use lib 't/lib';
use Dsem::Clock;
use Dsem::Test;

my $REQUESTS = $ENV{DSEM_LONG} ? 4000 : 160;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $up = $t->upstream;
my @proxy = map { $t->proxy($redis->address) } 1, 2;

my $conf = <<'EOF_CONF';
worker_processes 2;
dsem_log_level info;
location /races {
    dsem api limit=2 queue=100 timeout=30ms;
    proxy_pass http://%%UPSTREAM%%;
}
location /late {
    dsem api limit=2 queue=100 timeout=1500ms;
    proxy_pass http://%%UPSTREAM%%;
}
location /waits {
    dsem api limit=2 queue=100 timeout=60s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF
# of the one whose requests are late
my $clock = Dsem::Clock->new($t, monotonic => 1);
my @fleet = ($clock->node('n1', $conf, REDIS => $proxy[0]->address),
    $t->node('n2', $conf, REDIS => $proxy[1]->address));

sub state { return $t->state->counts('api') }

sub races {
    my ($name) = @_;
    $up->reset;
    $_->clear_logs for @fleet;
    my %got;
    # where a reply takes as long as the timeout, few are served
    for (1 .. 10) {
        my $result = $t->load(clients => 6, requests => $REQUESTS,
            records => 1, request => sub {
                $fleet[ $_[0] % 2 ]->url('/races'),
                    'X-Service' => 0.026 + rand 0.008
            });
        push @{ $got{ $_->{status} } }, $_->{nonce}
            for @{ $result->{records} };
        last if $got{200} && $up->peak == 2;
    }
    my %served = map { $_->{nonce} => 1 } $up->log;
    is join(' ', sort keys %got), '200 503', "$name: served or refused";
    cmp_ok scalar(@{ $got{$_} // [] }), '>', 0,
        "$name: some $_" for 200, 503;
    is scalar(grep { !$served{$_} } @{ $got{200} }), 0,
        "$name: served requests at backend";
    is scalar(grep { $served{$_} } @{ $got{503} }), 0,
        "$name: no rejected request at backend";
    is $up->peak, 2, "$name: limit reached, never exceeded";
    eventually { state() eq '0 0' } "$name: all permits returned", 4;
    note sprintf '%s: %d served, %d refused', $name,
        map { scalar @{ $got{$_} } } 200, 503;
}

races('near');
$_->delay(0.002) for @proxy;
races('far');
$_->delay(0.006, 's2c') for @proxy;
races('late answers');
$_->delay(0) for @proxy;

# a message that comes after the refusal, each time

$up->reset;
# of the other node: this one would pass its own permit on
my @holders = map { $fleet[1]->begin('/waits?hang=1') } 1, 2;
wait_for { $up->now == 2 } 15, 'both permits';
my $refused = 0;
$clock->stop;
for my $n (1, 2) {
    my @late = map { $fleet[0]->begin('/late') } 1, 2;
    wait_for { state() eq '2 2' } 15, 'the tickets';
    # not those to the other node, which returns its permits
    $proxy[0]->freeze('s2c');
    $up->release_all;
    $_->wait for @holders;
    wait_for { state() eq '2 0' } 15, 'the grants';
    $clock->step(1.6);
    $refused += grep { $_->wait->status == 503 } @late;
    $proxy[0]->thaw('s2c');
    @holders = map { $fleet[1]->begin('/waits?hang=1') } 1, 2;
    wait_for { $up->now == 2 } 15, 'both permits';
}
$clock->go;
is $refused, 4, 'rejected while granted';
is $up->started, 6, 'late grants handed on';
is state(), '2 0', 'each permit counted once';
$up->release_all;
is $_->wait->status, 200, 'request served' for @holders;
eventually { state() eq '0 0' } 'all permits returned';

$t->done;
