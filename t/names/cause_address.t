#!/usr/bin/perl

# A name with two addresses: the log names the one that has rejected the login,
# not the next one, which is tried when requests stop waiting; so does the API.

use lib 't/lib';
use Cpanel::JSON::XS qw(decode_json);
use Dsem::Test;

# a password of its own
delete $ENV{DSEM_ACL};

my $t = Dsem::Test->new;
my $redis = $t->redis(password => 'secret',
    args => [ '--bind', '127.0.0.3', '--requirepass', 'secret' ]);
my $port = $redis->port;
$t->dns('two.dsem.test' => [ '127.0.0.3', '127.0.0.4' ]);

my $node = $t->node('a', <<'EOF_CONF', PORT_OF_REDIS => $port);
worker_processes 1;
dsem_redis two.dsem.test:%%PORT_OF_REDIS%%;
# never the cause
dsem_redis_connect_timeout 60s;
dsem_on_error reject;
resolver %%DNS%%;
server {
    listen 127.0.0.1:%%PORT%%;
    location / {
        dsem api limit=2 queue=10 timeout=60s;
        return 204;
    }
    location /dsem/ {
        dsem_api;
    }
}
EOF_CONF

eventually { $node->grep_log(qr/unavailable \(/) == 1 } 'unavailable';
my ($line) = $node->grep_log(qr/unavailable \(/);
like $line, qr/redis 127\.0\.0\.3:$port unavailable \(NOAUTH /,
    'the address that rejected the login';

# the other one is tried at once, and is the cause during the pause after it
my $said;
eventually {
    $said = decode_json($node->get('/dsem/semaphores')->body)->{redis};
    $said->{reason} =~ /refused/;
} 'refused';
is $said->{address}, "127.0.0.4:$port", 'the address that refused';

$t->done;
