#!/usr/bin/perl

# A change is compared with all server names, and those that are regular
# expressions leave the variables of the request as they were.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
$t->redis;

my $node = $t->node('n1', <<'EOF_CONF');
server {
    listen 127.0.0.1:%%PORT%%;
    server_name ~^(?<tenant>[a-z]+)\.example$ first.example;
    if ($uri ~ ^/(dsem)/) {
        set $seen 1;
    }
    location /dsem/ {
        dsem_api write=on;
        add_header X-Captured "$1 $tenant" always;
    }
}
EOF_CONF

wait_for { $node->get('/dsem/health')->status == 200 } 15, 'connected';

my $changed = change('first.example');
is $changed->status, 200, 'changed by an exact name';
is $changed->header('X-Captured'), 'dsem ', 'captures unchanged';
is change('other.example')->status, 200, 'changed by an expression';
is change('7.example')->status, 403, 'not changed by another name';

$t->done;

sub change {
    my ($host) = @_;
    return $node->get('/dsem/semaphores/a', -method => 'PATCH',
        -body => '{"limit":1}', 'Content-Type' => 'application/json',
        Host => $host);
}
