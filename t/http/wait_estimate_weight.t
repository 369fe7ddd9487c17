#!/usr/bin/perl

# $dsem_wait_estimate where requests take several permits each: as long as with
# a limit of as many requests.

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
        dsem a limit=8 weight=4 queue=3 timeout=60s;
        proxy_pass http://%%UPSTREAM%%/?t=40&seen=$dsem_remaining/$dsem_wait_estimate;
    }
    location /long {
        dsem a limit=8 weight=4 queue=3 timeout=60s;
        proxy_pass http://%%UPSTREAM%%/?hang=1&seen=$dsem_remaining/$dsem_wait_estimate;
    }
    location /light {
        dsem a limit=8 queue=3 timeout=60s;
        proxy_pass http://%%UPSTREAM%%/?hang=1&seen=$dsem_remaining/$dsem_wait_estimate;
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

# the mean moves with requests of at least 40 ms

$node->get('/short') for 1 .. 30;
my $first = $node->begin('/long');
is seen($first), '4/0.000', 'permits for another one are left';
my $light = $node->begin('/light');
is seen($light), '3/0.000', 'and for another light one';
$up->release_nonce($first->nonce);
$first->wait;
wait_for { $t->state->held('a') == 1 };
my $heavy = $node->begin('/long');
my ($estimate) = map { seen($_) =~ m{^3/(\d+\.\d{3})$} } $heavy;
# the first one was a quick one
cmp_ok $estimate, '>=', 0.015, 'too few left for another one: half of a mean';
$up->release_all;
$_->wait for $light, $heavy;
wait_for { !$t->state->held('a') };

$node->get('/short') for 1 .. 30;
my @long = map { $node->begin('/long') } 1, 2;
wait_for { $up->now == 2 };
($estimate) = map { seen($_) =~ m{^0/(\d+\.\d{3})$} } @long;
cmp_ok $estimate, '>=', 0.02, 'all in use: half of a mean';

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
wait_for { $up->release_all; !grep { !$_->done } @long, @waiting };

done_testing();
