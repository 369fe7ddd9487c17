#!/usr/bin/perl

# A name stays marked as a dry run while no request comes, as one that is used
# once a day. A day and a half after the last one the mark ends: the dry run may have
# ended, and the name may be used no more. The monotonic clock of the node is moved.

use lib 't/lib';
use Cpanel::JSON::XS qw(decode_json);
use Dsem::Clock;
use Dsem::Test;

my $HOUR = 3600;

my $t = Dsem::Test->new;
$t->redis;
my $clock = Dsem::Clock->new($t, monotonic => 1);

my $node = $clock->node('a', <<'EOF_CONF');
location / {
    dsem trial limit=1;
    dsem_dry_run on;
    empty_gif;
}
location /dsem/ { dsem_api; }
EOF_CONF

sub local_figures {
    return decode_json($node->get('/dsem/semaphores/trial')->body)
        ->{semaphore}{local};
}
sub marked { return local_figures()->{dry_run} }

is $node->get('/')->status, 200, 'request passed';
ok marked(), 'a dry run';
$clock->step(35 * $HOUR);
# an hour without requests
eventually { @{ local_figures()->{history} } == 30 } 'a worker has seen that';
ok marked(), '35 hours later';
$clock->step(2 * $HOUR);
eventually { !marked() } '37 hours later';
is $node->get('/')->status, 200, 'another request passed';
ok marked(), 'a dry run again';

$t->done;
