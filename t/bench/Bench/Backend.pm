package Bench::Backend;

# The backend of all subjects, one nginx worker. /quick responds at once;
# /sleep/20 takes 20 ms and is counted by the backend itself.
#
# Called by: Bench::Quiet, Bench::Contended.

use strict;
use warnings;

use FindBin;

use Dsem::Client;
use Dsem::Wait qw(wait_for);

my $CONF = <<'EOF_CONF';
load_module /usr/lib/nginx/modules/ndk_http_module.so;
load_module /usr/lib/nginx/modules/ngx_http_lua_module.so;
%%START%%
worker_processes 1;
worker_rlimit_nofile 16384;
events { worker_connections 8192; }
http {
    access_log off;
    keepalive_requests 1000000000;
    lua_package_path "%%BENCH%%/?.lua;;";
    server {
        listen 127.0.0.1:%%PORT%% backlog=4096;
        location = /quick { return 200 "ok\n"; }
        location ~ ^/sleep/(\d+)$ {
            content_by_lua_block { require("backend").serve(ngx.var[1]) }
        }
        location = /report {
            content_by_lua_block { require("backend").report() }
        }
    }
}
EOF_CONF

sub new {
    my ($class, $stage) = @_;
    my $node = $stage->node('backend', $CONF, BENCH => $FindBin::Bin);
    return bless { node => $node, client => Dsem::Client->new }, $class;
}

sub address { '127.0.0.1:' . $_[0]{node}->port }
sub pids { $_[0]{node}->workers }

# time, served, took, running, peak (since the last report)
sub report {
    my ($self) = @_;
    my $body = $self->{client}->get($self->{node}->url('/report'))->body;
    my %report;
    @report{qw(time served took running peak)} = split ' ', $body;
    return \%report;
}

# Waits until the backend is quiet: it completes requests that nginx has given
# up, and those of closed clients that HAProxy still sends one by one.
sub settle {
    my ($self) = @_;
    my $quiet = 0;
    wait_for {
        $quiet = $self->report->{peak} ? 0 : $quiet + 1;
        $quiet == 20;
    } 10, 'the backend to finish';
}

1;
