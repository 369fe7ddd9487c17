#!/usr/bin/perl

# The session of a worker is removed by force, while the worker serves from idle
# permits and asks for nothing: the reply to its next sample tells it, it need
# not wait for that to a heartbeat.

use lib 't/lib';
use Digest::SHA qw(sha1_hex);

use Dsem::Test;

my $t = Dsem::Test->new;
my $redis = $t->redis;
$t->upstream;

my ($one, $two) = $t->fleet(2, <<'EOF_CONF');
worker_processes 1;
dsem_reuse 5s;
location /reused {
    dsem api limit=auto queue=10;
    proxy_pass http://%%UPSTREAM%%;
}
location /dsem/ { dsem_api write=on; }
EOF_CONF

my %name = map { sha1_hex($t->script($_)) => $_ }
    qw(hello declare declared beat sync adjust);
is $one->get('/reused')->status, 200, 'a request';
$redis->cmd(qw(CONFIG SET slowlog-max-len 10000));
$redis->cmd(qw(CONFIG SET slowlog-log-slower-than 0));

# Those of the worker that serves requests, in order.
sub scripts {
    my $node = $one->name;
    return map { $name{ $_->[3][1] } // () }
        grep { grep { /^\Q$node\E:/ } @{ $_->[3] } }
        reverse @{ $redis->cmd(qw(SLOWLOG GET -1)) };
}

# The last script before the worker registers again.
sub told_by {
    my $node = $one->name;
    my ($session) = grep { /^\Q$node\E:/ } $t->state->sessions;
    $redis->cmd(qw(SLOWLOG RESET));
    is $two->get("/dsem/sessions/$session", -method => 'DELETE',
        'Content-Type' => 'application/json', -body => '{"force": true}')
        ->status, 200, 'session removed';
    is $one->get('/reused')->status, 200, 'request served';
    my $scripts;
    wait_for { ($scripts = join ' ', scripts()) =~ /hello.* declared/ } 15,
        'all is declared';
    note $scripts;
    return $scripts =~ /(\w+) hello/ ? $1 : '';
}

# a heartbeat may be first
eventually { told_by() eq 'adjust' } 'told by a sample', 30;

$t->done;
