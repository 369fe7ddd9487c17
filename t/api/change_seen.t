#!/usr/bin/perl

# A change is shown from its answer on. Redis is distant here and there are many
# names, so that figures are being read that are of before the change: a request
# that comes after its answer gets those that are read next.

use JSON::PP qw(decode_json);
use lib 't/lib';
use Dsem::Test;

my $NAMES = 130;

my $t = Dsem::Test->new(lease => 60);
my $redis = $t->redis;
my $proxy = $t->proxy($redis->address);

my $node = $t->node('a', <<'EOF_CONF', REDIS => $proxy->address);
worker_processes 1;
dsem_redis_timeout 30s;
location / {
    dsem a limit=3;
}
location /dsem/ {
    dsem_api write=on;
}
EOF_CONF

sub change {
    my ($name, $limit) = @_;
    return $node->get("/dsem/semaphores/$name", -method => 'PATCH',
        'Content-Type' => 'application/json', -body => qq({"limit": $limit}));
}

sub ordered_in {
    my ($answer) = @_;
    my ($row) = grep { $_->{name} eq 'n000' }
        @{ decode_json($answer->body)->{semaphores} };
    return $row && $row->{order}{limit};
}

my $shard = 'dsem:{0}';
$redis->cmd('HSET', $shard, map { sprintf('order:n%03d', $_), '3 0' }
    0 .. $NAMES - 1);
eventually { (ordered_in($node->get('/dsem/semaphores')) // 0) == 3 }
    'figures of all names';

# the next request has them read anew

# again and farther, until the figures of before come after that request
my $delay = 0.05;
my $met;
until ($met || $delay > 2) {
    $proxy->delay(0);
    is change('n000', 3)->status, 200, 'as it was';
    is change('n001', 4)->status, 200, 'another name changed';
    $redis->cmd('HDEL', $shard, 'watched');
    $proxy->delay($delay *= 2);

    my $before = $node->begin('/dsem/semaphores');
    wait_for { $redis->cmd('HGET', $shard, 'watched') } 15,
        'figures of the first names read';
    is change('n000', 2)->status, 200, 'changed';
    my $after = $node->begin('/dsem/semaphores');
    $met = !$before->done;
    is ordered_in($after->wait), 2, 'the change shown';
    is $before->wait->status, 200, 'answer to the request of before it';
}
ok $met, 'it came later';

$proxy->delay(0);
done_testing();
