#!/usr/bin/perl

# Redis disconnects subscribers with too many unread bytes
# (client-output-buffer-limit). The messages of dsem are so small that one byte
# suffices. After a large message of another sender the worker subscribes
# again, and no request waits for longer than the poll interval.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $up = $t->upstream(service => 0.010);

my @fleet = $t->fleet(2, <<'EOF_CONF');
worker_processes 1;
location /told {
    dsem api limit=1 queue=100 timeout=10s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

sub subscribers {
    my @id = map { /^id=(\d+) /mg }
        $redis->cmd(qw(CLIENT LIST TYPE pubsub));
    return join ' ', sort { $a <=> $b } @id;
}

# subscribers disconnected, as Redis counts them
sub cut {
    open my $log, '<', $redis->log or die "log: $!";
    return scalar grep { /output buffer limits/ } <$log>;
}

sub loaded {
    my ($name) = @_;
    $up->reset;
    my $result = $t->load(urls => [ map { $_->url('/told') } @fleet ],
        clients => 10, requests => 60);
    is_deeply $result->{statuses}, { 200 => 60 }, "$name: all served";
    is $up->peak, 1, "$name: limit reached, never exceeded";
    return $result;
}

eventually { subscribers() =~ /^\d+ \d+$/ } 'both subscribed';
$redis->cmd(qw(CONFIG SET client-output-buffer-limit), 'pubsub 1 1 1');
my $before = subscribers();

my $result = loaded('one byte');
# by the poll it would take half a minute
cmp_ok took(now - $result->{seconds}), '<', 12, 'one byte: granted by messages';
is cut(), 0, 'one byte: no connection cut';
is subscribers(), $before, 'one byte: same subscriptions';

# a message of another sender

my @sessions = $t->state->sessions;
my $epochs = $t->state->epochs;
my $holder = $fleet[0]->begin('/told?hang=1');
wait_for { $up->now == 1 } 15, 'the permit';
my $waiting = $fleet[1]->begin('/told');
wait_for { $t->state->waiting('api') == 1 } 15, 'one request queued';
$redis->cmd('PUBLISH', $t->state->channel($_), 'x' x 3_000_000) for @sessions;
eventually { cut() == 2 } 'large: both connections cut';
my $released = now;
$up->release_all;
is $waiting->wait->status, 200, 'large: waiting request served';
cmp_ok took($released), '<', 3, 'large: granted by poll';
is $holder->wait->status, 200, 'large: holder served';
eventually { subscribers() =~ /^\d+ \d+$/ && subscribers() ne $before }
    'large: both subscribed again';
is_deeply $t->state->epochs, $epochs, 'large: commands not disturbed';
loaded('afterwards');

is scalar(map { $_->grep_log(qr/\[(?:warn|error)\]/) } @fleet), 0,
    'no warning logged';

$t->done;
