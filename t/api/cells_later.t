#!/usr/bin/perl

# More names are in use than the zone has room for the figures of. A name without
# room is a part of the other names, until there is room: when names are gone, or,
# in a worker that a reload has started meanwhile, when the old one has ended.

use lib 't/lib';
use Dsem::Test;
use JSON::PP;

# more than 64k have room for
my $NAMES = 400;

my $t = Dsem::Test->new;
$t->redis;
my $up = $t->upstream;

my $node = $t->node('a', <<'EOF_CONF');
worker_processes 1;
worker_connections 1024;
dsem_max_waiting 1000;
dsem_zone_size 64k;
location / {
    dsem $arg_n limit=5;
    proxy_pass http://%%UPSTREAM%%;
}
location /dsem/ { dsem_api; }
EOF_CONF

my @many = map { $node->begin("/?n=many$_&hang=1") } 1 .. $NAMES;
wait_for { $up->now == $NAMES } 30, 'a request of each name';
my @runs = map { $node->begin("/?n=$_&hang=1") } qw(late later);
wait_for { $up->now == $NAMES + 2 } 15, 'requests of two names more';
eventually { summed() == $NAMES + 2 } 'all are in the sum';

my ($old) = $node->workers;
$node->reload;
wait_for { grep { $_ == $old } $node->draining } 15, 'the old worker to drain';
push @runs, $node->begin('/?n=new&hang=1');
wait_for { $up->now == $NAMES + 3 } 15, 'a request in the new worker';

$_->abort for splice @many, 20;
wait_for { $up->now == 23 } 15, 'few are left';
eventually { shown($_) eq '1 0 0' } "$_: shown" for qw(late later);
$_->abort for @many, splice @runs, 0, 2;
wait_for { !grep { $_ == $old } $node->draining } 30, 'the old worker to end';
eventually { shown('new') eq '1 0 0' } 'new: shown';
is summed(), 1, 'nothing else is in the sum';

push @runs, map { $node->begin("/?n=more$_&hang=1") } 1 .. $NAMES;
wait_for { $up->now == $NAMES + 1 } 30, 'many names in the new worker';
eventually { summed() == $NAMES + 1 } 'all of the new worker are in the sum';

$up->release_all;
$_->wait for @runs;
eventually { summed() == 0 } 'nothing is left in the sum';
$t->done;

# permits in use of all names and of the others
sub summed {
    my $list = decode_json($node->get('/dsem/semaphores')->body);
    my $sum = $list->{other}{in_use};
    $sum += $_->{local} ? $_->{local}{in_use} : 0 for @{ $list->{semaphores} };
    return $sum;
}

# permits in use, idle, and waiting requests
sub shown {
    my ($name) = @_;
    my $local = decode_json($node->get("/dsem/semaphores/$name")->body)
        ->{semaphore}{local};
    return join ' ', map { $local->{$_} // 'none' } qw(in_use idle waiting);
}
