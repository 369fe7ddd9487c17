#!/usr/bin/perl

# Without nginx's resolver a name is resolved when the configuration is read,
# which a notice says: changes are followed at a reload only. "localhost" is
# never asked of a name server, and needs no notice.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $port = $redis->port;
my $up = $t->upstream;
my $dns = $t->dns;

my $conf = <<'EOF_CONF';
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    dsem_redis %%HOST%%:%%REDIS_PORT%%;
    dsem_node %%NODE%%;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / {
            dsem api limit=1 queue=5;
            proxy_pass http://%%UPSTREAM%%;
        }
    }
}
EOF_CONF
my $asking = $conf =~ s/(http \{)/$1\n    resolver %%DNS%%;/r;

# without the directive Angie asks the name servers of the system
my $angie = qx(PATH=\$PATH:/usr/sbin '@{[ $ENV{DSEM_NGINX} // 'nginx' ]}' -v 2>&1)
    =~ /Angie/;

# for nginx 127.1 is a name; the system knows it everywhere, its name servers
# nowhere
for (
    [ 'name', $conf, '127.1', !$angie, 0 ],
    [ 'localhost', $conf, 'LocalHost', 0, 0 ],
    [ 'name_asked', $asking, '127.1', 0, 1 ],
    [ 'localhost_asked', $asking, 'localhost', 0, 0 ],
) {
    my ($name, $text, $host, $notices, $asked) = @$_;
    my $questions = $dns->questions;
    my $node = $t->node($name, $text, HOST => $host, REDIS_PORT => $port);
    eventually { $node->grep_log(qr/connected to redis \S+:$port /) }
        "$name: connected";
    is $node->get('/?t=1')->status, 200, "$name: request served";
    is scalar($node->grep_log(qr/\[notice\] .* host in address "$host:$port" of "dsem_redis" directive is resolved now only, changes of DNS need a reload/)),
        $notices || 0, "$name: notice";
    my ($line) = map { /:(\d+)$/ } $node->grep_log(qr/is resolved now only/);
    is $line, line_of($node, 'dsem_redis'), "$name: line of the directive"
        if $notices;
    is $dns->questions > $questions, !!$asked, "$name: questions";
    $node->quit;
}

$t->done;

sub line_of {
    my ($node, $directive) = @_;
    open my $fh, '<', $node->dir . '/nginx.conf' or die "nginx.conf: $!";
    while (<$fh>) { return $. if /^\s*$directive\s/ }
    return;
}
