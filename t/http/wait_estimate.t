#!/usr/bin/perl

# $dsem_remaining and $dsem_wait_estimate: how many permits were free, and when
# the next request would have one, by what waits and how long permits are held.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
$t->redis;
my $up = $t->upstream;

my $node = $t->node('n1', <<'EOF_CONF');
server {
    listen 127.0.0.1:%%PORT%%;
    dsem_reuse off;
    add_header X-Seen $dsem_remaining/$dsem_wait_estimate always;
    location /short {
        dsem a limit=2 queue=3 timeout=60s;
        proxy_pass http://%%UPSTREAM%%/?t=40&seen=$dsem_remaining/$dsem_wait_estimate;
    }
    location /long {
        dsem a limit=2 queue=3 timeout=60s;
        proxy_pass http://%%UPSTREAM%%/?hang=1&seen=$dsem_remaining/$dsem_wait_estimate;
    }
    location /heavy {
        dsem b limit=$arg_limit weight=2 queue=3;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /free {
        proxy_pass http://%%UPSTREAM%%;
    }
}
EOF_CONF

# What a request saw that has come to the backend.
sub seen {
    my ($request) = @_;
    my $line = wait_for {
        my ($line) = grep { $_->{nonce} eq $request->nonce } $up->log;
        $line;
    };
    return $line->{uri} =~ /seen=(.*)/ ? $1 : undef;
}

# before anything is known of the time

my $first = $node->begin('/long');
is seen($first), '1/0.000', 'one permit left, none to wait for';
my $second = $node->begin('/long');
is seen($second), '0/', 'none left: time unknown';
$up->release_all;
$_->wait for $first, $second;
wait_for { !$t->state->held('a') };

# the mean moves with requests of 40 ms, but does not reach that

$node->get('/short') for 1 .. 30;
my @long = map { $node->begin('/long') } 1, 2;
wait_for { $up->now == 2 };
my ($estimate) = map { seen($_) =~ m{^0/(\d+\.\d{3})$} } @long;
cmp_ok $estimate, '>=', 0.015, 'all in use: half of a mean, at limit 2';

my @waiting;
for my $n (1 .. 3) {
    push @waiting, $node->begin('/long');
    wait_for { $t->state->waiting('a') == $n };
}
my $rejected = $node->get('/short');
is $rejected->status, 503, 'no place left';
my ($left, $later) = split m{/}, $rejected->header('X-Seen');
is $left, 0, 'rejected: none left';
cmp_ok abs(1000 * $later - 4000 * $estimate), '<=', 3.001,
    'it would be the fourth that waits';
my $line = $node->logged($rejected);
is "$line->{dsem_remaining}/$line->{dsem_wait_estimate}", "0/$later",
    'in the log';
wait_for { $up->release_all; !grep { !$_->done } @long, @waiting };

# nothing to wait for

is $node->get('/heavy?limit=1')->header('X-Seen'), '1/',
    'heavier than the limit: never';
is $node->get('/heavy?limit=x')->header('X-Seen'), '/', 'limit unknown';
is $node->get('/free')->header('X-Seen'), '/', 'not limited';

done_testing();
