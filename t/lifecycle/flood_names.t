#!/usr/bin/perl

# A flood of names made up by clients, each used once, leaves no memory in the
# worker and no key in Redis.

use lib 't/lib';
use Dsem::Http2;
use Dsem::Test;

my $NAMES = $ENV{DSEM_LONG} ? 1_000_000 : 12_000;
my $ROUNDS = 4;
# KB, in all rounds after the first: 42 bytes of each name; where the machine
# stands still a hundred requests wait at once, and the heap grows by some steps
my $FLAT = 512;

my $t = Dsem::Test->new;
my $redis = $t->redis;

my $node = $t->node('n1', <<'EOF_CONF');
worker_connections 2048;
access_log off;
keepalive_requests 1000000;
dsem_log_level info;
server {
    listen 127.0.0.1:%%PORT%% http2;
    error_log error.log warn;
    location /any {
        dsem "$http_x_tenant" limit=1 queue=10 weight=$arg_weight;
        proxy_pass http://unix:%%DIR%%/backend:/;
    }
}
server {
    listen unix:%%DIR%%/backend;
    location / {
        return 204;
    }
}
EOF_CONF

my @PATHS = ('/any', '/any', '/any?weight=2');

# a hundred streams at a time; some of the names are too long to be kept
sub flood {
    my ($h2, $n, $statuses) = @_;
    for my $breath (1 .. $n / 100) {
        my @requests = map { [$h2->request($PATHS[ $_ % 3 ],
            'x-tenant' => join '-', $_, int rand 1e9, 'x' x ($_ * 3))]
        } 1 .. 100;
        $h2->send(join '', map { $_->[1] } @requests);
        $statuses->{ $h2->status($_->[0]) }++ for @requests;
        delete @$h2{qw(status ended body)};
    }
}

my (%statuses, @kb, @redis_kb);
for my $round (0 .. $ROUNDS) {
    for (1 .. 5) {
        my $h2 = Dsem::Http2->new($node->raw);
        flood($h2, $NAMES / $ROUNDS / 5, \%statuses);
        $h2->close;
    }
    wait_for { keys_left() == 0 };
    push @kb, kb();
    push @redis_kb, redis_kb();
}

my $asked = $NAMES / $ROUNDS * ($ROUNDS + 1);
is_deeply [sort keys %statuses], [204, 503], 'all passed or rejected';
cmp_ok $statuses{$_}, '>', 0.3 * $asked, "many $_" for 204, 503;
is keys_left(), 0, 'no key left in redis';
cmp_ok $redis_kb[-1] - $redis_kb[0], '<', $FLAT, 'memory of redis flat';
# sanitizers need more
cmp_ok $kb[-1] - $kb[0], '<', $FLAT * ($ENV{DSEM_TIME_FACTOR} || 1),
    'memory of the worker flat';
note "after each round: worker @kb KB; redis @redis_kb KB";

done_testing();

sub kb { return $node->private / 1024 }

sub redis_kb {
    my ($bytes) = $redis->cmd('INFO', 'memory') =~ /^used_memory:(\d+)/m;
    return int $bytes / 1024;
}

sub keys_left {
    return scalar grep { /:[sq]:/ } @{ $redis->cmd('KEYS', '*') };
}
