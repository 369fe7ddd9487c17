#!/usr/bin/perl

# Recipe "A limit per client": a client has so many requests at a time over
# both nodes, and another one is served beside it. A file is limited like a
# response of the backend.

use lib qw(t/lib t/run);
use Dsem::Recipe;
use Dsem::Test;
use Fleet::Conf;

my $recipe = recipe('A limit per client', 'timeout=5s' => 'timeout=60s');
my $client = Fleet::Conf::semaphore($recipe, '"ip:$remote_addr"');

my $t = Dsem::Test->new;
$t->redis;
my $up = $t->upstream;

my @fleet = $t->fleet(2, <<'EOF_CONF' =~ s/%%RECIPE%%/$recipe/r);
%%GLOBALS%%
events { }
http {
    %%HTTP%%
    dsem_redis %%REDIS%%;
    dsem_node %%NODE%%;
    # no more may wait for permits that the other node may have idle
    dsem_reuse off;
    upstream backend {
        server %%UPSTREAM%%;
    }
    server {
        listen 127.0.0.1:%%PORT%%;
        set_real_ip_from 127.0.0.1;
        real_ip_header X-Real-IP;
        %%RECIPE%%
        location /files/ {
            dsem files limit=0;
            alias %%DIR%%/;
        }
        location = /binary {
            dsem $binary_remote_addr limit=0;
            proxy_pass http://backend;
        }
    }
}
EOF_CONF

my $n = 0;

sub ask {
    my ($ip, $path) = @_;
    return $fleet[$n++ % 2]->begin($path // '/download/?hang=1',
        'X-Real-IP' => $ip);
}

my @one = map { ask('192.0.2.1') } 1 .. $client->{limit} + $client->{queue};
eventually { $up->now == $client->{limit} } 'limit of the client used';
eventually { $t->state->waiting('ip:192.0.2.1') == $client->{queue} }
    'others of it queued';
is ask('192.0.2.1')->wait->status, 503, 'one more rejected';
my @others = map { ask($_) } '192.0.2.2', '2001:db8::1';
eventually { $up->now == $client->{limit} + 2 } 'other clients served';
is $t->state->held('ip:2001:db8::1'), 1, 'name of an IPv6 address';
wait_for { $up->release_all; !grep { !$_->done } @one, @others } 15, 'the end';
is $up->peak, $client->{limit} + 2, 'never more';

is ask('192.0.2.1', '/files/nginx.conf')->wait->status, 503, 'file limited';
my $binary = ask('192.0.2.1', '/binary');
is $binary->wait->status, 503, 'bytes as a name';
my $line = wait_for {
    (grep { $_->{request_uri} eq '/binary' } map { $_->access_log } @fleet)[0]
} 15, 'its line in a log';
is $line->{dsem_name}, '%C0%00%02%01', 'percent-encoded';

$t->done;
