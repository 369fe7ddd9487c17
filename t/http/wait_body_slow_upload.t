#!/usr/bin/perl

# Slow uploads hold no permit: a body whose length is known is read before
# anything is asked for, while others are served as always. With
# "dsem_wait_body off" two of them are enough to keep everybody out.

use lib 't/lib';
use Dsem::Test;

my $POSTS = 50;

my $t = Dsem::Test->new;
$t->redis;
my $up = $t->upstream;

my $node = $t->node('n1', <<'EOF_CONF');
worker_connections 1024;
dsem_reuse off;
dsem two limit=2 queue=100 timeout=30s;
lingering_close off;
server {
    listen 127.0.0.1:%%PORT%%;
    location / {
        proxy_pass http://127.0.0.1:%%PORT2%%;
    }
    location /off {
        dsem_wait_body off;
        proxy_pass http://127.0.0.1:%%PORT2%%;
    }
}
# shows what the upstream gets
server {
    listen 127.0.0.1:%%PORT2%%;
    dsem off;
    location / {
        add_header X-Body $request_body;
        proxy_pass http://%%UPSTREAM%%;
    }
}
EOF_CONF

# six bytes each, and what happens between two of them
sub slow_posts {
    my ($path, $n, $meanwhile) = @_;
    my @posts = map {
        $node->begin($path, -method => 'POST', 'Content-Length' => 6);
    } 1 .. $n;
    for my $piece (1 .. 6) {
        for my $i (0 .. $#posts) {
            $posts[$i]->raw->send(chr(ord('a') + ($i + $piece) % 26));
        }
        $meanwhile->() if $piece < 6;
    }
    return @posts;
}

my ($n, $slowest, $most) = (0, 0, 0);
my @posts = slow_posts('/?t=20', $POSTS, sub {
    for (1 .. 5) {
        my ($held, $waiting) = split / /, state();
        $most = $held + $waiting if $held + $waiting > $most;
        my $get = $node->get('/?t=1');
        $n++ if $get->status == 200;
        $slowest = $get->took if $get->took > $slowest;
        wait_for { state() eq '0 0' };
    }
});
is($most, 0, 'uploads hold no permit');
cmp_ok($n, '>', 20, 'other requests served');
cmp_ok($slowest, '<', 15, 'others served at once');
note(sprintf '%d others, the slowest took %.4f s', $n, $slowest);

is_deeply([map { $_->wait->status . ' ' . $_->header('X-Body') } @posts], [
    map {
        my $i = $_;
        '200 ' . join '', map { chr(ord('a') + ($i + $_) % 26) } 1 .. 6;
    } 0 .. $#posts
], 'uploads are served with their bodies');
is($up->peak, 2, 'peak is the limit');
is($up->served, $n + $POSTS, 'all uploads served');

# a permit first

$up->reset;
my @others;
@posts = slow_posts('/off?hang=1', 2, sub {
    return is(scalar(grep { $_->done } @others), 0, 'other request queued')
        if @others;
    eventually { state() eq '2 0' } 'uploads hold both permits';
    push @others, $node->begin('/?t=1');
    eventually { state() eq '2 1' } 'other request queued';
});
eventually { $up->now == 2 } 'uploads at the backend';
$up->release_all;
is($_->wait->status, 200, 'upload served') for @posts, @others;
is(($up->order)[-1], $others[0]->nonce, 'waiting request last');
is($up->peak, 2, 'peak is the limit');

done_testing();

# permits held and tickets waiting
sub state { return $t->state->counts('two') }
