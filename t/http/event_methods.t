#!/usr/bin/perl

# epoll, poll and select: whichever of them nginx has been built with. Grants
# and refusals come with each, and who leaves the queue is missed. Behind a
# pipelined request not each of them sees the end of a connection: who left so
# is gone after the timeout at the latest.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
$t->redis;
my $up = $t->upstream;

my $conf = <<'EOF_CONF';
%%GLOBALS%%
events {
    use %%METHOD%%;
    worker_connections 1000;
}
http {
    %%HTTP%%
    dsem_redis %%REDIS%%;
    dsem_node %%NODE%%;
    proxy_set_header X-Sem $dsem_name;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / {
            dsem %%METHOD%% limit=2 queue=100 timeout=30s;
            proxy_pass http://%%UPSTREAM%%;
        }
        location /impatient {
            dsem %%METHOD%% limit=2 queue=10 timeout=1s;
            proxy_pass http://%%UPSTREAM%%;
        }
    }
}
EOF_CONF

my @left;
for my $method (qw(epoll poll select)) {
    SKIP: {
        my (undef, $said) = $t->test_conf($conf, METHOD => $method);
        skip "this nginx has no $method", 1 if $said =~ /invalid event type/;
        my $node = $t->node($method, $conf, METHOD => $method);
        serves($node, $method);
        push @left, leaves($node, $method);
    }
}
# their timeouts are the same second
$_->() for @left;

done_testing();

sub serves {
    my ($node, $method) = @_;
    my $load = $t->load(urls => [$node->url('/?t=2')], clients => 50,
        requests => 500);
    is_deeply($load->{statuses}, { 200 => 500 }, "$method: all served");
    is($up->peak($method), 2, 'two at a time');
    eventually { state($method) eq '0 0' } 'nothing left';
}

# Returns what is to be seen after the timeout.
sub leaves {
    my ($node, $method) = @_;
    my @holders = map { $node->begin('/?hang=1') } 1, 2;
    wait_for { $up->now($method) == 2 };
    for my $way (qw(close reset)) {
        my @waiting = map { $node->raw->send(get('/')) } 1 .. 10;
        wait_for { state($method) eq '2 10' };
        $_->$way for @waiting;
        eventually { state($method) eq '2 0' } "$method: ten left by $way";
    }
    my $hidden = $node->raw->send(get('/impatient') . get('/'));
    wait_for { state($method) eq '2 1' };
    $hidden->close;
    my $late = $node->begin('/impatient');
    return sub {
        is($late->wait->status, 503, "$method: rejected after the timeout");
        eventually { state($method) eq '2 0' }
            "pipelined client's ticket removed";
        $up->release_nonce($_->nonce) for @holders;
        is($_->wait->status, 200, 'holder served') for @holders;
        eventually { state($method) eq '0 0' } 'nothing left';
        is($up->peak($method), 2, 'two at a time');
    };
}

sub get { "GET $_[0] HTTP/1.1\r\nHost: a\r\n\r\n" }

# permits held and tickets waiting
sub state { return $t->state->counts($_[0]) }
