#!/usr/bin/perl

# With each sample a worker sends the usual time of its requests, before the
# sample and with it, so that a node that is farther from the backend is known.
# Usual is the mean logarithm of the last 20 s, or of the last 200 requests; it is
# sent from 100 requests on.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $up = $t->upstream;

my $monitor = $t->client->raw('127.0.0.1', $redis->port);
$monitor->send("MONITOR\r\n")->read_until(qr/OK/);
my $node = $t->node('a', <<'EOF_CONF');
worker_processes 1;
location / {
    dsem api limit=auto;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

# quick ones first, so that it matters how soon they are forgotten
my $begun = 0;
my $load = $t->load_start(clients => 8, seconds => 600,
    request => sub { $node->url($begun++ < 300 ? '/?t=10' : '/?t=60') });

# a command that Redis did not know is sent again
my ($seen, %samples) = ('');
wait_for {
    $seen .= $monitor->read(0.1);
    while ($seen =~
        s/^.*?:a:api" "a:[^"]*" "\d+ (\d+) [\d ]+" "api" "([\d ]+)"//s)
    {
        $samples{$1} = [ split / /, $2 ];
    }
    grep({ $_->[7] } values %samples) > 5 && sent() > 500;
} 60, 'samples with a usual time';
$load->stop->wait;

my ($of, $usual, $known, @wrong) = (0, 0, 0);
for my $sample (@samples{ sort { $a <=> $b } keys %samples }) {
    my ($count, $errors, $window, $logs) = @$sample[0, 2, 4, 5];
    my $good = $count - $errors;
    my $left = $of * (1 - $window / 20_000);
    my $least = $of < 200 ? $of : 200;
    my $is_known = $of >= 100;
    $of = $good + ($left > $least ? $left : $least);
    my $after = $good
        ? $usual + ($logs / $good * 10 - $usual) * $good / $of : $usual;
    if ($is_known) {
        # sums are sent in whole thousandths: until then that adds up
        my $most = $known++ ? 2 : 20;
        push @wrong, [ @$sample, $usual, $after ]
            if abs($sample->[7] - $usual) > $most
            || abs($sample->[8] - $after) > $most;
        $after = $sample->[8];
    } elsif ($sample->[7] || $sample->[8]) {
        push @wrong, [ @$sample, 'too early' ];
    }
    $usual = $after;
}
cmp_ok $known, '>', 5, 'known after some samples';
is_deeply \@wrong, [], 'as it follows from the samples'
    or diag explain \@wrong;
cmp_ok $usual, '>=', 10_000 * log 9_000, 'no less than a request takes';

$t->done;

sub sent {
    my $sent = 0;
    $sent += $_->[0] for values %samples;
    return $sent;
}
