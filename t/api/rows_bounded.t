#!/usr/bin/perl

# A node has counted more names than an answer of the API has rows: the rest is
# in the row of the other names, and the answer is marked as partial.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Cpanel::JSON::XS qw(decode_json);

use Dsem::Test;

my ($NAMES, $ROWS) = (2100, 2000);

my $t = Dsem::Test->new;
my $redis = $t->redis;

my $node = $t->node('a', <<'EOF_CONF');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    dsem_redis %%REDIS%%;
    dsem_node %%NODE%%;
    dsem_zone_size 16m;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / {
            dsem "name$arg_n" limit=4 queue=1;
            empty_gif;
        }
        location /dsem/ { dsem_api; }
    }
}
EOF_CONF

my $load = $t->load(clients => 20, requests => $NAMES,
    request => sub { $node->url("/?n=$_[0]") });
is_deeply $load->{statuses}, { 200 => $NAMES }, 'all served';

my $json = decode_json($node->get('/dsem/semaphores')->body);
is scalar(@{ $json->{semaphores} }), $ROWS, 'no more rows';
ok $json->{fleet}{partial}, 'partial';
my $passed = $json->{other}{passed};
cmp_ok $passed, '>=', $NAMES - $ROWS, 'the rest is counted';
$passed += $_->{local}{passed} // 0 for @{ $json->{semaphores} };
is $passed, $NAMES, 'each request is counted once';

$t->done;
