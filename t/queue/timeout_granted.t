#!/usr/bin/perl

# A worker is busy with something else for long, and then finds the grant of a
# request and the end of its time in one turn of the event loop: the request has
# its permit. A script of nginx's perl module, of libnginx-mod-http-perl in
# Debian, keeps the worker busy.

use lib 't/lib';
use Dsem::Test;

my $module = '/usr/lib/nginx/modules/ngx_http_perl_module.so';
plan skip_all => 'no perl module for this nginx'
    if $ENV{DSEM_NGINX} || !-e $module;

my $t = Dsem::Test->new(lease => 60);
$t->redis;
my $up = $t->upstream;

my $conf = <<'EOF_CONF';
%%GLOBALS%%
%%PERL%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    dsem_redis %%REDIS%%;
    dsem_node %%NODE%%;
    dsem_lease 60s;
    dsem_reuse off;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / {
            dsem api limit=1 queue=10 timeout=2s;
            proxy_pass http://%%UPSTREAM%%;
        }
        location /busy {
            perl 'sub {
                open my $begun, ">", "%%DIR%%/begun";
                select undef, undef, undef, 0.01 until -e "%%DIR%%/ready";
                return 204;
            }';
        }
    }
}
EOF_CONF
my ($a, $b) = map { $t->node($_, $conf, PERL => "load_module $module;") }
    qw(a b);

my $holder = $b->begin('/?hang=1');
wait_for { $up->now == 1 } 15, 'the holder';
my $began = now;
my $waits = $a->begin('/');
wait_for { $t->state->waiting('api') == 1 } 15, 'a request waits';
my $busy = $a->begin('/busy');
wait_for { -e $a->dir . '/begun' } 15, 'the worker is busy';
$up->release_all;
is $holder->wait->status, 200, 'the permit comes free';
wait_for { $t->state->counts('api') eq '1 0' } 15, 'the grant';
wait_for { now > $began + 2.5 } 15, 'the end of its time';
open my $ready, '>', $a->dir . '/ready' or die "ready: $!";
is $busy->wait->status, 204, 'the worker goes on';
is $waits->wait->status, 200, 'served';
is $a->logged($waits)->{dsem_status}, 'QUEUED', 'as one that was queued';

$t->done;
