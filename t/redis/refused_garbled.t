#!/usr/bin/perl

# A login is rejected, and bytes that are no reply follow in the same segment:
# requests stop waiting at once, with the cause.

use lib 't/lib';
use IO::Select;
use IO::Socket::INET;

use Dsem::Test;

# a login of its own
delete $ENV{DSEM_ACL};

my $t = Dsem::Test->new;
$t->upstream;
my $listen = IO::Socket::INET->new(LocalAddr => '127.0.0.1', Listen => 16,
    ReuseAddr => 1) or die $!;

my $node = $t->node('a', <<'EOF_CONF', REDIS => '127.0.0.1:' . $listen->sockport);
worker_processes 1;
dsem_redis %%REDIS%% password=guess;
dsem_redis_connect_timeout 60s;
dsem_on_error reject;
dsem_status 503 error=500;
location / {
    dsem api limit=2 queue=10 timeout=60s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

my $asked = $node->begin('/');
my $select = IO::Select->new($listen);
my %open;

# the fake server, whenever a test looks
sub serve {
    for my $sock ($select->can_read(0)) {
        if ($sock == $listen) {
            my $new = $listen->accept or next;
            $open{$new} = $new;
            $select->add($new);
        } elsif (sysread $sock, my $read, 65_536) {
            syswrite $sock, "-WRONGPASS no\r\n?junk\r\n" if $read =~ /AUTH/;
        } else {
            $select->remove($sock);
            close delete $open{$sock};
        }
    }
}

eventually { serve(); $node->grep_log(qr/unavailable \(/) == 1 } 'unavailable';
like +($node->grep_log(qr/unavailable \(/))[0],
    qr/unavailable \(WRONGPASS no\)/, 'cause named';
is $asked->wait->status, 500, 'waiting request refused';

$t->done;
