#!/usr/bin/perl

# A node is reloaded while Redis is unavailable for longer than a lease. Its old
# worker goes on with the share of the node, first for the requests that wait in
# it; the new workers have what it does not use. So it is with the old worker of
# a second reload, and with one that is killed. The node never has more than its
# share.

use lib 't/lib';
use Dsem::Test;

my ($LIMIT, $SHARE) = (8, 4);

my $t = Dsem::Test->new(lease => 1);
my $redis = $t->redis;
my $up = $t->upstream;
my $conf = <<'EOF_CONF';
dsem_redis_connect_timeout 200ms;
dsem_lease 1s;
location / {
    dsem $arg_name limit=8 queue=80 timeout=100s weight=$arg_weight;
    proxy_set_header X-Sem $arg_name-%%NODE%%;
    proxy_set_header X-Weight $arg_weight;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF
my ($stays, $node) = map { $t->node($_, $conf) } qw(stays reloaded);
$redis->all_beat(2);
$redis->kill;

my $served = 0;

sub hang {
    my ($of, $n, $name, $weight) = @_;
    $name //= 'plain';
    $weight //= 1;
    return map { $of->begin("/?hang=1&name=$name&weight=$weight") } 1 .. $n;
}

# records of its requests in the order in which they began
sub begun { my ($sem) = @_; grep { $_->{sem} eq $sem } $up->log }
sub running { grep { !$_->{end} } begun(@_) }

# a request of the node ends, the oldest or the youngest, and the next one begins
sub next_one {
    my ($name, $youngest) = @_;
    my @runs = running('plain-reloaded');
    $up->release_nonce($runs[$youngest ? -1 : 0]{nonce});
    $served++;
    eventually { begun('plain-reloaded') == $served + $SHARE } $name;
}

sub statuses { join ' ', map { $_->wait->status // 0 } @_ }

my @others = hang($stays, $SHARE + 1);
my @old = hang($node, $SHARE + 2);
my @heavy = hang($node, 2, 'heavy', 2);
eventually { $up->now($_) == $SHARE } "$_ has its share"
    for qw(plain-stays plain-reloaded heavy-reloaded);
push @heavy, hang($node, 1, 'heavy', 3);
my $late = $node->raw;
$late->send("POST /?hang=1&name=late&weight=1 HTTP/1.0\r\n"
    . "Content-Length: 2\r\n\r\n.");
is $node->get('/?name=light&weight=1')->status, 200,
    'a heavy one waits, and one for its body';

my ($oldest) = $node->workers;
$node->reload;
my @late = hang($node, $SHARE, 'late');
eventually { $up->now('late-reloaded') == $SHARE } 'new worker has the share';
$late->send('.');
my @middle = hang($node, 3);
next_one('first that waits in the old worker');
next_one('second that waits in the old worker');
next_one('first of the new worker');
is statuses(@old[0 .. 2]), '200 200 200', 'old requests answered';

# one that waits for more than has come free keeps that from the new worker
$up->release_nonce((running('heavy-reloaded'))[0]{nonce});
is statuses($heavy[0]), '200', 'heavy one answered';
push @heavy, hang($node, 1, 'heavy', 1);
is $node->get('/?name=light&weight=1')->status, 200, 'a light one waits';
$up->release_nonce((running('heavy-reloaded'))[0]{nonce});
eventually { begun('heavy-reloaded') == @heavy } 'two of four begin';
is join(' ', map { $_->{weight} } begun('heavy-reloaded')), '2 2 3 1',
    'old one before new one';

$node->reload;
next_one('second of the new worker, which is an old one now', 1);
is statuses($middle[0]), '200', 'its first one answered';
my @newest = hang($node, 4);
next_one('first after another reload');
is statuses($old[3]), '200', 'another old request answered';

$node->kill_worker($oldest);
$served += 2;
eventually { begun('plain-reloaded') == $served + $SHARE }
    'two for those of the killed worker';
is $up->now('plain-reloaded'), $SHARE, 'share used';

wait_for { $up->release_all; !grep { !$_->done } @middle, @newest, @others } 15,
    'all to be answered';
is statuses(@middle, @newest), join(' ', ('200') x 7), 'all others answered';
is $up->peak("$_-reloaded"), $SHARE, "$_: share never exceeded"
    for qw(plain heavy late);
wait_for { $up->release_all; !grep { !$_->done } @heavy, @late } 15,
    'those with other names';
$redis->start;

$t->done;
