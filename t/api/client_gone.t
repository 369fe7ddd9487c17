#!/usr/bin/perl

# A client that has left before its request was read gets no answer that is still
# to be made: of one that waits for the fleet, and of one that is written in
# several turns of the event loop.

use lib 't/lib';

use Dsem::Test;

my $t = Dsem::Test->new;
my $proxy = $t->proxy($t->redis->address);
my $node = $t->node('n1', <<'EOF_CONF', SLOW_REDIS => $proxy->address);
dsem_redis %%SLOW_REDIS%%;
dsem_lease 10m;
location / {
    dsem "name$arg_n" limit=4 queue=1;
    empty_gif;
}
location /dsem/ { dsem_api; }
EOF_CONF

my $load = $t->load(clients => 10, requests => 300,
    request => sub { $node->url("/?n=$_[0]") });
is_deeply $load->{statuses}, { 200 => 300 }, 'many names';

$proxy->freeze('s2c');
is left('/dsem/semaphores')->{status}, 499, 'one that waits for the fleet';
$proxy->thaw('s2c');

is $node->get('/dsem/semaphores')->status, 200, 'the fleet is surveyed';
is left('/dsem/metrics')->{status}, 499, 'one that is written in turns';

$t->done;

# The worker finds the request and the end of its connection at once.
sub left {
    my ($path) = @_;
    $node->freeze;
    my $leaver = $node->begin($path);
    $leaver->close;
    $node->thaw;
    return $node->logged($leaver);
}
