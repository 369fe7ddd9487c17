#!/usr/bin/perl

# The semaphores of a Cluster are spread over four shards, and these over its
# masters. A worker is registered in the shards of its literal limits from its
# start, in others from their first request on. The limit of each name holds
# over the fleet, whichever shard it is in.

use lib 't/lib';
use Dsem::Cluster;
use Dsem::Test;

my $LIMIT = 2;

my $t = Dsem::Test->new;
my $cluster = Dsem::Cluster->new($t, replicas => 0);
my $up = $t->upstream(service => 0.010);

my $conf = <<'EOF_CONF';
worker_processes 1;
dsem_redis %%REDIS%% mode=cluster;
proxy_set_header X-Sem $dsem_name;
location /named {
    dsem "$arg_n" limit=2 queue=100 timeout=10s;
    proxy_pass http://%%UPSTREAM%%;
}
location /literal {
    dsem c limit=%%LIMIT%%;
    dsem a limit=4;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

my @fleet = map { $t->node($_, $conf, LIMIT => 3) } 'n1', 'n2';

# one name in each shard
my @NAMES = qw(one c d a);
is_deeply [ map { Dsem::State::shard_of($_) } @NAMES ], [0 .. 3], 'shards';
my %at = map { $_ => $cluster->at($_) } @NAMES;
my %state = map { $_ => Dsem::State->new($at{$_}) } @NAMES;
my %master = map { $at{$_}->owner->name => 1 } @NAMES;
is scalar(keys %master), 3, 'on all masters';

sub counts { join ' ', map { $state{$_}->session_count } @NAMES }

# literal limits

# and all in the first shard
eventually { counts() eq '2 2 0 2' } 'registered for literal limits';
# stated when Redis has replied to the hello
eventually { $state{c}->lowest_limit('c') == 3 }
    'limit in the shard of its name';
eventually { $state{a}->lowest_limit('a') == 4 } 'that of another name, too';
is_deeply [ grep { /^limit:/ } $state{c}->limit_fields ], ['limit:c'],
    'no other limit there';
is $fleet[0]->get('/literal?t=1')->status, 200, 'names of two shards';

my $careful = $t->node('n3', $conf, LIMIT => 1);
eventually { $state{c}->lowest_limit('c') == 1 } 'lower limit of another node';
is $state{a}->lowest_limit('a'), 4, 'other shard unchanged';
$careful->quit;
eventually { $state{c}->lowest_limit('c') == 3 } 'until that exits';
eventually { counts() eq '2 2 0 2' } 'without its sessions';

# the first request of a shard

is $fleet[0]->get('/named?t=1&n=one')->status, 200, 'first request served';
is counts(), '2 2 0 2', 'registered before';
is $fleet[1]->get('/named?t=1&n=d')->status, 200, 'other shard served';
is counts(), '2 2 1 2', 'registered for it';
is scalar(map { $_->grep_log(qr/\[(?:warn|error)\].*dsem/) } @fleet), 0,
    'no warning';

# many names

$up->reset;
my @many = map { "many$_" } 1 .. 12;
my $load = $t->load(clients => 60, requests => 1200, request => sub {
    $fleet[ $_[0] % 2 ]->url("/named?n=$many[ $_[0] / 2 % @many ]");
});
is_deeply $load->{statuses}, { 200 => 1200 }, 'every request served';
is_deeply [ map { $up->peak($_) } @many ], [ ($LIMIT) x @many ],
    'each limit reached, never exceeded';
is counts(), '2 2 2 2', 'registered everywhere';

my @held = map { $fleet[ $_ % 2 ]->begin("/named?hang=1&n=$many[ $_ / 2 ]") }
    0 .. 2 * @many - 1;
eventually { $up->now == @held } 'all permits out';
for my $name (@NAMES) {
    my $shard = Dsem::State::shard_of($name);
    is_deeply [ sort $state{$name}->names ],
        [ sort grep { Dsem::State::shard_of($_) == $shard } @many ],
        "shard $shard: its names only";
    is_deeply [ grep { $state{$name}->held($_) != $LIMIT }
        $state{$name}->names ], [], "shard $shard: permits counted";
}
$up->release_all;
is scalar(grep { $_->wait->status != 200 } @held), 0, 'held requests served';

$t->done;
