#!/usr/bin/perl

# A redirect changes what a request wants: it keeps what the new location's
# list begins with, gives back the rest before it waits, and a refusal there
# ends it with its page. With lists that share their names in one order many
# at once never wait for each other in a circle; where names are variable and
# the orders opposite, timeout ends the circle.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
$t->redis;
my $up = $t->upstream;

my $node = $t->node('n1', <<'EOF_CONF');
worker_connections 2048;
# what is given back is seen at once
dsem_reuse off;
add_header X-Dsem "$dsem_status $dsem_name" always;
error_page 503 @sorry;
server {
    listen 127.0.0.1:%%PORT%%;
    location /ab {
        dsem a limit=1 queue=1000 timeout=30s;
        dsem b limit=1 queue=1000 timeout=30s;
        try_files /nowhere @$arg_to;
    }
    location @a {
        dsem a limit=1 queue=1000 timeout=30s;
        proxy_pass http://%%UPSTREAM%%;
    }
    location @b {
        dsem b limit=1 queue=1000 timeout=30s;
        proxy_pass http://%%UPSTREAM%%;
    }
    location @bc {
        dsem b limit=1 queue=1000 timeout=30s;
        dsem c limit=1 queue=1000 timeout=30s;
        proxy_pass http://%%UPSTREAM%%;
    }
    location @ac {
        dsem a limit=1 queue=1000 timeout=30s;
        dsem c limit=1;
        proxy_pass http://%%UPSTREAM%%;
    }
    location @abc {
        dsem a limit=1 queue=1000 timeout=30s;
        dsem b limit=1 queue=1000 timeout=30s;
        dsem c limit=1 queue=1000 timeout=30s;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /c {
        dsem c limit=1 queue=1000 timeout=30s;
        proxy_pass http://%%UPSTREAM%%;
    }
    location @sorry {
        dsem a limit=1 queue=10 timeout=30s;
        proxy_pass http://%%UPSTREAM%%/sorry?$args;
    }

    location /light {
        dsem heavy limit=3 queue=10 timeout=30s;
        try_files /nowhere @heavy;
    }
    location @heavy {
        dsem heavy limit=3 weight=3 queue=10 timeout=30s;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /heavy {
        dsem heavy limit=3 weight=3 queue=10 timeout=30s;
        try_files /nowhere @light;
    }
    location @light {
        dsem heavy limit=3 queue=10 timeout=30s;
        proxy_pass http://%%UPSTREAM%%;
    }

    location /there {
        dsem "$arg_x" limit=1 queue=1000 timeout=500ms;
        dsem "$arg_y" limit=1 queue=1000 timeout=500ms;
        try_files /nowhere @back;
    }
    location @back {
        dsem "$arg_y" limit=1 queue=1000 timeout=500ms;
        dsem "$arg_x" limit=1 queue=1000 timeout=500ms;
        proxy_pass http://%%UPSTREAM%%;
    }
}
EOF_CONF

# what is kept

my %kept = (a => '1 0, 0 0, 0 0', b => '0 0, 1 0, 0 0',
    bc => '0 0, 1 0, 1 0', ac => '1 0, 0 0, 1 0', abc => '1 0, 1 0, 1 0');
for my $to (sort keys %kept) {
    my $request = $node->begin("/ab?to=$to&hang=1");
    eventually { $up->now == 1 && abc() eq $kept{$to} }
        "permits after redirect to $to";
    $up->release_all;
    is($request->wait->status, 200, 'request served');
    eventually { abc() eq '0 0, 0 0, 0 0' } 'nothing left';
}

# who waits for c holds, of what it had, only what comes before

my $c = $node->begin('/c?hang=1');
wait_for { $up->now == 1 };
my $waits = $node->begin('/ab?to=bc');
eventually { abc() eq '0 0, 1 0, 1 1' } 'queued for c without a';
$waits->close;
eventually { abc() eq '0 0, 0 0, 1 0' } 'all permits returned';
$up->reset;
my $refused = $node->begin('/ab?to=ac&hang=1');
eventually { $up->now == 2 && ($up->log)[0]{uri} =~ /sorry/ }
    'rejected with error page';
is(abc(), '0 0, 0 0, 1 0', 'error page without permit');
$up->release_all;
is($refused->wait->status, 503, 'status is the refusal');
is($refused->header('X-Dsem'), 'REJECTED c', 'refusal reason reported');
is($c->wait->status, 200, 'c served');

# many at once

my $load = $t->load(urls => [map { $node->url("/ab?to=$_&t=1") }
    qw(a b bc abc)], clients => 20, requests => 200);
is_deeply($load->{statuses}, { 200 => 200 }, 'no deadlock');
eventually { abc() eq '0 0, 0 0, 0 0' } 'nothing left';

# the same name with another weight

for my $way (['/light', 3], ['/heavy', 1]) {
    my ($path, $weight) = @$way;
    my $request = $node->begin("$path?hang=1");
    eventually { $up->now == 1 } "$path: no wait for own permit";
    cmp_ok((split ' ', state('heavy'))[0], '>=', $weight,
        'enough permits held');
    $up->release_all;
    is($request->wait->status, 200, 'request served');
    eventually { state('heavy') eq '0 0' } 'nothing left';
}
$up->reset;
$load = $t->load(urls => [map { $node->url("$_?t=1") } '/light', '/heavy'],
    clients => 10, requests => 60);
is_deeply($load->{statuses}, { 200 => 60 }, 'many requests served');
eventually { state('heavy') eq '0 0' } 'nothing left';

# opposite orders, which nginx -t cannot see

my @circle = map { $node->begin('/there?x=x&y=y&t=1') } 1 .. 20;
my %status;
$status{ $_->wait->status }++ for @circle;
is(($status{200} // 0) + ($status{503} // 0), 20, 'all served or rejected');
eventually { state('x') . state('y') eq '0 00 0' } 'nothing left';
is($node->get('/there?x=x&y=y')->status, 200, 'service continues');

done_testing();

sub abc { join ', ', map { state($_) } qw(a b c) }

# permits held and tickets waiting
sub state {
    my ($name) = @_;
    return $t->state->counts($name);
}
