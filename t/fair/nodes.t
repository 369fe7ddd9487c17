#!/usr/bin/perl

# A key without variables for each node: the nodes take turns, although the
# requests of one came before those of the other. With one key at both they are
# served in order of arrival. nginx -t warns at each, as it knows one node only.

use lib 't/lib';
use Dsem::Clock;
use Dsem::Test;

my $t = Dsem::Test->new;
$t->redis;
my $up = $t->upstream;
my $clock = Dsem::Clock->new($t, monotonic => 1);

my $conf = <<'EOF_CONF';
worker_processes 1;
dsem_lease 10m;
location / {
    dsem own limit=1 queue=50 timeout=20s fair=%%NODE%%;
    proxy_pass http://%%UPSTREAM%%;
}
location /one {
    dsem one limit=1 queue=50 timeout=20s fair=all;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF
my %node = map { $_ => $clock->node($_, $conf) } 'web1', 'web2';

# a worker serves its own next request while a reply is late: none ever is
wait_for { $t->state->subscribed == 2 } 15, 'both to be told of grants';
$clock->stop;

is order('own', '/'), 'web1 web2 web1 web2 web1 web2 web1 web1 web1',
    'a key each: turns';
is order('one', '/one'), 'web1 web1 web1 web1 web1 web1 web2 web2 web2',
    'one key: order of arrival';
is $up->peak, 1, 'limit reached, never exceeded';
$clock->go;

for my $node (sort { $a->name cmp $b->name } values %node) {
    my $key = $node->name;
    is scalar $node->grep_log(qr/\[warn\] .*"fair=(?:$key|all)" .* all its requests at this node have one key/),
        2, "$key: warnings";
}

$t->done;

# Which nodes were served, in their order: six requests of one, then three of the
# other.
sub order {
    my ($name, $path) = @_;
    $up->reset;
    my $holder = $node{web2}->begin("$path?hang=1");
    wait_for { $up->now == 1 } 15, 'the holder';

    my (@all, %of);
    for my $node (('web1') x 6, ('web2') x 3) {
        my $request = $node{$node}->begin("$path?t=2");
        push @all, $request;
        $of{ $request->nonce } = $node;
        wait_for { $t->state->waiting($name) == @all } 15, 'in the queue';
    }
    $up->release_all;
    is $_->wait->status, 200, "$name: request served" for $holder, @all;
    return join ' ', grep { $_ } map { $of{$_} } $up->order;
}
