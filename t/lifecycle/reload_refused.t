#!/usr/bin/perl

# A reload whose configuration is refused, and which limits nothing: a worker
# that the master starts after it still adds Retry-After and releases permits
# at the end of the upstream response, by the filters of the old configuration.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
$t->redis;
my $up = $t->upstream;

my $conf = <<'EOF_CONF';
# a name that a user may give as well
limit_req_zone $server_addr zone=dsem:64k rate=1000r/s;
lingering_timeout 30s;
server {
    listen 127.0.0.1:%%PORT%%;
    location /one {
        dsem one limit=1;
        dsem_retry_after 7s;
        limit_req zone=dsem burst=10 nodelay;
        proxy_pass http://%%UPSTREAM%%;
    }
}
EOF_CONF

my $node = $t->node('n1', $conf);

# read as a whole, then refused

$node->write_conf(<<'EOF_CONF');
%%GLOBALS%%
events { }
http {
    %%HTTP%%
    server {
        listen 127.0.0.1:%%PORT%%;
    }
}
refused;
EOF_CONF
$node->signal('HUP');
eventually { $node->grep_log(qr/unknown directive "refused"/) }
    'configuration refused';
$node->clear_logs;
$node->write_conf($conf);

my %old = map { $_ => 1 } $node->workers;
$node->kill_worker;
eventually { my @new = $node->workers; @new == 1 && !$old{ $new[0] } }
    'worker replaced';

my $running;
eventually {
    $running = $node->raw->send("GET /one?hang=1 HTTP/1.1\r\nHost: a\r\n"
        . "Connection: close\r\n\r\nand more");
    my $deadline = now + 1;
    wait_for { $up->now == 1 || now > $deadline };
    $up->now == 1;
} 'permit out';

my $rejected = $node->get('/one');
is $rejected->status, 503, 'second request rejected';
is $rejected->header('Retry-After'), 7, 'header added';

$up->release_all;
eventually { $t->state->held('one') == 0 }
    'permit released before lingering close', 5;
$running->close;

$t->expect_log(qr/unknown directive "refused"/);
$t->done;
