#!/usr/bin/perl

# A request with a thousand headers of a name that the API, the metrics or
# "dsem_hold" read costs as much as one with a thousand of another name: each is
# read once, the last one too.

use lib 't/lib';
use Dsem::Test;

plan skip_all => 'sanitizers have costs of their own'
    if $ENV{DSEM_TIME_FACTOR};

# nginx takes a thousand, with "Host"
my ($HEADERS, $REQUESTS) = (990, 10);
# searched from the first one again for each of them it was 20 to 50
my $BOUND = 5;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $node = $t->node('a', <<'EOF_CONF');
worker_processes 1;
location /dsem/ {
    dsem_api write=on;
}
location /jobs {
    dsem jobs limit=1000;
    dsem_hold;
}
EOF_CONF
$redis->all_beat(1);

my $patch = 'PATCH /dsem/semaphores/jobs';
costs('GET /jobs', 'Prefer:', 'Prefix:', 200);
# nginx itself links those that it has a list of, each time from the first one
costs('GET /dsem/metrics', 'Accept:', 'Accept-Language:', 200);
costs($patch, 'Origin: http://localhost', 'Orange: http://localhost', 415);
costs($patch, 'Sec-Fetch-Site: same-origin', 'Sec-Fetch-Size: same-origin',
    415);
is answer($patch, ('Origin: http://localhost') x ($HEADERS - 1),
    'Origin: http://other'), 403, 'the last one is read';

$t->done;

# The lowest of some rounds: a busy machine has cold caches.
sub costs {
    my ($line, $name, $other, $status) = @_;
    my (%least, %answered);
    for (1 .. 5) {
        for my $header ($name, $other) {
            my $cost = cost($line, $header, \%answered);
            $least{$header} = $cost
                if !$least{$header} || $cost < $least{$header};
        }
    }
    my $of = $name =~ s/:.*//r;
    is join(' ', keys %answered), $status, "$line, $of: answered";
    my $times = $least{$name} / $least{$other};
    cmp_ok $times, '<', $BOUND, "$line, $of: costs as much";
    note sprintf '%.1f times', $times;
}

# Of a few requests, ns on a CPU.
sub cost {
    my ($line, $header, $answered) = @_;
    my $before = cpu();
    $answered->{ answer($line, ($header) x $HEADERS) }++ for 1 .. $REQUESTS;
    return cpu() - $before;
}

sub answer {
    my ($line, @headers) = @_;
    my $raw = $node->raw;
    $raw->send(join "\r\n", "$line HTTP/1.1", 'Host: localhost', @headers, '',
        '');
    my ($status) = $raw->read_until(qr/\r\n/) =~ /^HTTP\/1.1 (\d+)/;
    $raw->close;
    return $status;
}

sub cpu {
    my ($pid) = $node->workers;
    open my $fh, '<', "/proc/$pid/schedstat" or die "schedstat: $!";
    return (split ' ', <$fh>)[0];
}
