#!/usr/bin/perl

# A variable of a script that reads the body: with "dsem_wait_body first" its
# value is that of the body, by HTTP/1.1 and HTTP/2. Without it the script sees
# no body. Needs nginx's perl module, of libnginx-mod-http-perl in Debian.

use lib 't/lib';
use Dsem::Test;

my $module = '/usr/lib/nginx/modules/ngx_http_perl_module.so';
plan skip_all => 'no perl module for this nginx'
    if $ENV{DSEM_NGINX} || !-e $module;

my $t = Dsem::Test->new;
$t->redis;
my $up = $t->upstream;

my $node = $t->node('n1', <<'EOF_CONF', PERL => "load_module $module;");
%%GLOBALS%%
%%PERL%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    dsem_redis %%REDIS%%;
    dsem_node %%NODE%%;
    dsem_reuse off;
    client_body_buffer_size 64k;
    perl_set $words 'sub {
        my $body = shift->request_body;
        return defined $body ? scalar(my @words = split " ", $body) : 50;
    }';
    # the weight that was acquired
    proxy_set_header X-Weight $dsem_in_use;
    log_format body escape=json '$http_x_nonce $request_body';
    server {
        listen 127.0.0.1:%%PORT%%;
        listen 127.0.0.1:%%PORT2%% http2;
        access_log %%DIR%%/bodies.log body;
        location /first {
            dsem first limit=100 weight=$words queue=10 timeout=1m;
            dsem_wait_body first;
            proxy_pass http://%%UPSTREAM%%;
        }
        location /on {
            dsem on limit=100 weight=$words queue=10 timeout=1m;
            proxy_pass http://%%UPSTREAM%%;
        }
    }
}
EOF_CONF

for my $n (1, 7, 30) {
    is weight('/first', join ' ', ('word') x $n), $n, "$n words";
}
is weight('/on', 'two words'), 50, 'without a body where it is not read first';
is weight('/first'), 50, 'a request without a body';

my @curl = (qw(curl -s -o /dev/null -w), '%{http_version} %{http_code}',
    '--http2-prior-knowledge', '--data', 'four words by HTTP/2',
    'http://127.0.0.1:' . $node->port(2) . '/first');
open my $fh, '-|', @curl or die "curl: $!";
is scalar <$fh>, '2 200', 'by HTTP/2';
is +($up->log)[-1]{weight}, 4, 'four words';

eventually { logged() =~ /"?four words by HTTP\/2/ } 'whole in the log';

$t->done;

sub weight {
    my ($path, $body) = @_;
    my @body = defined $body ? (-method => 'POST', -body => $body) : ();
    is $node->get($path, @body)->status, 200, 'served';
    return +($up->log)[-1]{weight};
}

sub logged {
    open my $log, '<', $node->dir . '/bodies.log' or return '';
    local $/;
    return <$log>;
}
