#!/usr/bin/perl

# All commands of a worker are recorded and sent twice again: asks, releases,
# cancels, hellos, declarations. Redis executes them, but the session has begun
# a new epoch, so none has an effect: no permit is released or granted twice.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $up = $t->upstream(service => 0.010);

my $proxy = $t->proxy($redis->address);

my @fleet = $t->fleet(2, <<'EOF_CONF', REDIS => $proxy->address);
worker_processes 1;
location /heard {
    dsem api limit=3 queue=50 timeout=10s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

# all that Redis has, but times, the last place, and when it was looked through
sub state {
    my $state = $t->state->snapshot('api');
    delete @{ $state->{figures} }{qw(touched seq seen)};
    delete $_->{ends} for values %{ $state->{entries} };
    $state->{shard} = [ $t->state->shard(qw(gen recover_until)) ];
    return $state;
}

# the lowest epoch under which a session has declared all that it has
sub epoch {
    my ($lowest) = $t->state->declared;
    return $lowest;
}

sub begin_anew {
    my $epoch = epoch();
    $proxy->reset;
    wait_for { epoch() > $epoch } 15, 'a new epoch';
}

# The arguments of a command as MONITOR shows them.
sub arguments {
    my ($line) = @_;
    my %escaped = (n => "\n", r => "\r", t => "\t", a => "\a", b => "\b");
    return map {
        s/\\(?:x([0-9a-f]{2})|(.))/$1 ? chr hex $1 : $escaped{$2} \/\/ $2/ger
    } $line =~ /"((?:[^"\\]|\\.)*)"/g;
}

wait_for { (epoch() // 0) > 0 } 15, 'sessions';
my $monitor = $t->client->raw('127.0.0.1', $redis->port);
$monitor->send("MONITOR\r\n")->read_until(qr/OK/);

# commands of each kind, then hellos and declarations under a new epoch

my @long = map { $_->begin('/heard?hang=1') } @fleet;
wait_for { $up->now == 2 } 15, 'long requests';
$t->load(urls => [ map { $_->url('/heard') } @fleet ], clients => 12,
    requests => 200, abort => sub { rand 0.2 });
push @long, $fleet[0]->begin('/heard?hang=1');
wait_for { $up->now == 3 } 15, 'all permits out';
my @waiting = map { $_->begin('/heard?hang=1') } @fleet;
wait_for { @{ state()->{queue} } == 2 } 15, 'two requests queued';
begin_anew();
$redis->cmd('ECHO', 'heard enough');
my @heard = map { [ arguments($_) ] }
    grep { /^\+\S+ \[\d+ [^l]\S+\] "EVALSHA"/ }
    split /\r\n/, $monitor->read_until(qr/heard enough/);
$monitor->close;
cmp_ok scalar(@heard), '>', 100, 'many commands recorded';
my %scripts = map { $_->[1] => 1 } @heard;
cmp_ok scalar(keys %scripts), '>=', 4, 'all kinds recorded';

# once more, and once more

begin_anew();
my $before = state();
my $executed = $redis->calls->{evalsha};
for my $round (1, 2) {
    my %status;
    for my $command (@heard) {
        my $reply = eval { $redis->cmd(@$command) };
        $status{ ref $reply ? $reply->[3] : $@ }++;
    }
    # resync, or stale for a hello: no other status, and no error
    is_deeply [ sort keys %status ], [1, 2], "$round: no command accepted"
        or diag explain \%status;
    is_deeply state(), $before, "$round: state unchanged";
}
cmp_ok $redis->calls->{evalsha} - $executed, '>=', 2 * @heard,
    'all commands executed';
is $up->now, 3, 'no request admitted';

# the counts are right: each release is counted once

$up->release(1);
eventually { $up->now == 3 && @{ state()->{queue} } == 1 }
    'one permit handed over';
wait_for { $up->release_all; !grep { !$_->done } @long, @waiting } 15,
    'the last';
is $_->wait->status, 200, 'request served' for @long, @waiting;
is $up->peak, 3, 'limit reached, never exceeded';

$t->done;
