#!/usr/bin/perl

# HTTP/3: a hold is a stream. Its reset is the end of the hold, beside others of
# its connection. A worker that exits at once with holders leaves the socket as
# it is on which the next one listens.

use lib 't/lib';
use Dsem::Http3 qw(http3_curl);
use Dsem::Process;
use Dsem::Test;

my $t = Dsem::Test->new;
my $dir = $t->dir;
my @curl = http3_curl($t);

$t->redis;

my $node = $t->node('a', <<'EOF_CONF');
ssl_certificate %%DIR%%/../cert.pem;
ssl_certificate_key %%DIR%%/../key.pem;
server {
    listen 127.0.0.1:%%PORT%% quic;
    location /jobs {
        dsem jobs limit=2;
        dsem_hold interval=1h;
    }
    location / {
        return 200 served;
    }
}
EOF_CONF

my @both = h3('-Z', '-m', 600, url('/jobs'), '--next', options(), '-m', 3,
    url('/jobs'));
eventually { $t->state->held('jobs') == 2 } 'two streams hold permits';
eventually { $t->state->held('jobs') == 1 } 'one stream was reset';
ok($both[0]->alive, 'the other one holds its permit');

my ($old) = $node->workers;
kill TERM => $old;
wait_for { grep { $_ != $old } $node->workers } 15, 'the next worker';

my ($served, $log) = h3('-m', 20, url('/'));
wait_for { !$served->alive } 30, 'the response';
is(do { open my $fh, '<', $log; local $/; <$fh> }, 'served',
    'the next worker serves HTTP/3');
$both[0]->end;

done_testing();

my $n;

sub options { return ('--http3-only', '-ksSN') }
sub url { return 'https://127.0.0.1:' . $node->port . $_[0] }

# A curl with these arguments, and the file of what it prints.
sub h3 {
    my $log = "$dir/curl" . ++$n;
    return (Dsem::Process->spawn(name => "curl$n", log => $log,
        argv => [@curl, options(), @_]), $log);
}
