#!/usr/bin/perl

# Values ask for a body that is not read first: what they were made of stays as
# it was evaluated for them. A random variable in the name of the permit is the
# same in proxy_pass. $request_body is there later where nginx reads the body.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
$t->redis;
my $up = $t->upstream;

my $node = $t->node('n1', <<'EOF_CONF');
worker_processes 1;
split_clients $request_id $gpu {
    25% a;
    25% b;
    25% c;
    *   d;
}
map $request_body $user {
    "~^user=(?<given>[a-z]+)" $given;
    default none;
}
dsem "gpu:$gpu" limit=10 queue=10 fair=$user;
proxy_set_header X-Sem gpu:$gpu;
add_header X-Name $dsem_name;
add_header X-Key $dsem_key;
log_format bodies '$http_x_nonce $request_body $user';
server {
    listen 127.0.0.1:%%PORT%%;
    access_log %%DIR%%/bodies.log bodies;
    location /unbuffered {
        proxy_request_buffering off;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /off {
        dsem_wait_body off;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /read {
        proxy_pass http://%%UPSTREAM%%;
    }
}
EOF_CONF

for my $path (qw(/unbuffered /off /read)) {
    my @requests = map {
        $node->get("$path?t=1", -method => 'POST', -body => 'user=me')
    } 1 .. 20;
    my %sem = map { $_->{nonce} => $_->{sem} } $up->log;
    is_deeply [ map { $sem{ $_->nonce } } @requests ],
        [ map { $_->header('X-Name') } @requests ],
        "$path: permit and server are of one evaluation";
    is $requests[0]->header('X-Key'), $path eq '/read' ? 'me' : 'none',
        "$path: key";
}

my %logged;
wait_for {
    open my $log, '<', $node->dir . '/bodies.log';
    %logged = ();
    $logged{ s/^\S+ |\n//gr }++ while <$log>;
    60 == (() = map { (1) x $_ } values %logged);
} 15, 'all logged';
is_deeply \%logged, { 'user=me none' => 40, 'user=me me' => 20 },
    'whole in the access log, the map as it was for the permit';

$t->done;
