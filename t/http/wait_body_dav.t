#!/usr/bin/perl

# DAV reads a body in its own way: PUT in a limited location stores the file,
# whether the body comes with the header or slowly, and whether the request
# waits in the queue before.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
$t->redis;
my $up = $t->upstream;

my $node = $t->node('n1', <<'EOF_CONF');
dsem one limit=1 queue=10 timeout=30s;
lingering_close off;
client_max_body_size 2m;
server {
    listen 127.0.0.1:%%PORT%%;
    location / {
        proxy_pass http://%%UPSTREAM%%;
    }
    location /dav {
        root %%DIR%%;
        dav_methods PUT DELETE;
        create_full_put_path on;
    }
}
EOF_CONF

sub put {
    my ($name, %header) = @_;
    return $node->begin("/dav/$name", -method => 'PUT', %header);
}

sub stored {
    my ($name) = @_;
    open my $file, '<:raw', $node->dir . "/dav/$name" or return "$name: $!";
    local $/;
    return scalar <$file>;
}

my $large = join '', map { sprintf '%07d|', $_ } 1 .. 131_072;
my %body = (empty => '', short => 'short', large => $large);

for my $name (sort keys %body) {
    is(put($name, -body => $body{$name})->wait->status, 201, "$name: created");
    is(stored($name), $body{$name}, 'file complete');
}
is($node->begin('/dav/short', -method => 'DELETE')->wait->status, 204,
    'file deleted');

# slowly

my $put = put('slow', 'Content-Length' => 10);
$put->raw->send('01234');
wait_for { state() eq '1 0' };
$put->raw->send('56789');
is($put->wait->status, 201, 'slow body: created');
is(stored('slow'), '0123456789', 'file complete');
eventually { state() eq '0 0' } 'no permit held';

# from the queue

my $holder = $node->begin('/?hang=1');
wait_for { $up->now == 1 };
my @puts = map { put("queued_$_", -body => $body{$_}) } qw(short large);
eventually { state() eq '1 2' } 'requests queued';
$up->release_all;
is($_->wait->status, 201, 'created') for @puts;
is(stored("queued_$_"), $body{$_}, 'file complete') for qw(short large);
is($holder->wait->status, 200, 'holder served');
eventually { state() eq '0 0' } 'no permit held';

done_testing();

# permits held and tickets waiting
sub state { return $t->state->counts('one') }
