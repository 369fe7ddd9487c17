#!/usr/bin/perl

# Load on many names at once, some of them contended, with client aborts and
# lost connections: no limit is exceeded, every request is answered, and nothing
# is left.

use lib 't/lib';
use Dsem::Test;

my $SERVED = $ENV{DSEM_LONG} ? 40_000 : 1500;
my $NAMES = 8;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $up = $t->upstream(service => 0.005);

my @fleet = $t->fleet(2, <<'EOF_CONF');
worker_processes 2;
dsem_reuse off;
dsem_log_level info;
proxy_set_header X-Sem $arg_name;
location /wide {
    dsem $arg_name limit=40 queue=50;
    proxy_pass http://%%UPSTREAM%%;
}
location /narrow {
    dsem $arg_name limit=2 queue=50 timeout=300ms;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF
wait_for { $t->state->session_count == 4 } 15, 'sessions open';

# Every fourth request is for the only name that is contended.
sub url {
    my ($i) = @_;
    my $node = $fleet[ $i % 2 ];
    return $i % 4 == 3 ? $node->url('/narrow?name=n0')
        : $node->url('/wide?name=n' . (1 + int($i / 4) % ($NAMES - 1)));
}

my $before = $redis->calls->{evalsha};
my $load = $t->load_start(clients => 64, seconds => 3600, keepalive => 1,
    request => sub { url($_[0]) },
    abort => sub { rand() < 0.05 ? rand 0.05 : undef });
# connections are lost twice
for my $part (1 .. 3) {
    wait_for { $up->served > $part * $SERVED / 3 } 120, 'many served';
    $redis->client_kill if $part < 3;
}
my $result = $load->stop->wait;
my $calls = $redis->calls->{evalsha} - $before;
my %status = %{ $result->{statuses} };
note sprintf '%d requests, %.2f commands each; %s', $result->{count},
    $calls / $result->{count}, join ', ', map { "$_ $status{$_}" } keys %status;

is_deeply [ sort grep { !/^(200|503|aborted)$/ } keys %status ], [],
    'every request answered';
cmp_ok $status{200}, '>', $SERVED / 2, 'many served';
is $up->peak('n0'), 2, 'limit reached, never exceeded';
cmp_ok $up->peak("n$_"), '<=', 40, "limit of n$_ never exceeded"
    for 1 .. $NAMES - 1;
my %last = map { $_ => 1 } 0 .. $NAMES - 1;
eventually {
    for my $n (sort keys %last) {
        # what an older epoch left is dropped when its permits are wanted
        $fleet[0]->get($n ? "/wide?name=n$n" : '/narrow?name=n0')->status
            == 200 or next;
        delete $last{$n} if $t->state->counts("n$n") eq '0 0';
    }
    !%last;
} 'nothing left';

$t->done;
