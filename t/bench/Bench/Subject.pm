package Bench::Subject;

# The subjects of the comparison: ways to limit requests to a backend, all with
# the same backend and, if nginx, the same settings. A case is a cap: its name,
# limit and the backend's path; a subject serves each case at /<name>.
#
# Called by: Bench::Quiet, Bench::Contended.

use strict;
use warnings;

use FindBin;

use Bench::HAProxy;
use Dsem::Wait qw(wait_for);

# in http {}, and in the location of a case
my %NGINX = (
    plain => { title => 'plain proxy_pass' },
    limit_conn => {
        title => 'limit_conn',
        http => 'limit_conn_zone $server_name zone=bench:1m;',
        location => 'limit_conn bench %%LIMIT%%;',
    },
    reuse => {
        title => 'dsem, reuse',
        http => 'dsem_reuse 100ms;',
    },
    no_reuse => {
        title => 'dsem, no reuse',
        http => 'dsem_reuse off;',
    },
    lua => {
        title => 'Lua, ZSET per call',
        modules => [qw(ndk_http_module ngx_http_lua_module)],
        http => 'lua_package_path "%%BENCH%%/?.lua;;";'
            . ' lua_max_running_timers 100000;'
            . ' lua_max_pending_timers 100000;',
        location => 'access_by_lua_block {'
            . ' require("peer").enter(%%REDIS_PORT%%, "%%NAME%%", %%LIMIT%%)'
            . ' } log_by_lua_block {'
            . ' require("peer").leave(%%REDIS_PORT%%, "%%NAME%%") }',
        # all other commands of Redis are called by scripts
        sends => [qw(evalsha zrem)],
    },
);

# a request decided without Redis counts as refused, and is not measured
for (@NGINX{qw(reuse no_reuse)}) {
    $_->{dsem} = 1;
    $_->{http} .= ' dsem_redis %%REDIS%%; dsem_node %%NODE%%;'
        . ' dsem_redis_connect_timeout 10s; dsem_redis_timeout 10s;'
        . ' dsem_on_error reject; dsem_status 503 error=500;'
        . ' dsem_prefix bench-%%SUBJECT%%;';
    $_->{location} = 'dsem %%NAME%% limit=%%LIMIT%% queue=%%QUEUE%%'
        . ' timeout=30s;';
    $_->{sends} = [qw(evalsha)];
}

my $CONF = <<'EOF_CONF';
%%MODULES%%
%%START%%
worker_processes %%WORKERS%%;
worker_rlimit_nofile 16384;
events { worker_connections 8192; }
http {
    access_log off;
    keepalive_requests 1000000000;
    upstream backend {
        server %%BACKEND%%;
        keepalive 256;
        keepalive_requests 1000000000;
    }
    proxy_http_version 1.1;
    proxy_set_header Connection "";
    %%SUBJECT_HTTP%%
    server {
        listen 127.0.0.1:%%PORT%% backlog=4096;
        %%LOCATIONS%%
    }
}
EOF_CONF

# "..._again" is a second, equal subject.
sub start {
    my ($class, $stage, $key, %opt) = @_;
    my ($kind) = $key =~ /^(\w+?)(?:_again)?$/;
    my $self = bless { key => $key, stage => $stage, %opt,
        title => 'HAProxy maxconn', %{ $NGINX{$kind} // {} } }, $class;
    $self->{title} .= ', again' if $kind ne $key;
    if ($kind eq 'haproxy') {
        $self->{haproxy} = Bench::HAProxy->new($stage, %opt);
    } else {
        $self->{servers} = [ map { $self->node("$key$_") } 1 .. $opt{nodes} ];
    }
    $self->wait_for_sessions if $self->{dsem};
    return $self;
}

# Waits until exactly the workers of this subject are registered in Redis.
sub wait_for_sessions {
    my ($self) = @_;
    my $state = Dsem::State->new($self->{stage}->redis,
        "bench-$self->{key}:{0}");
    my $n = $self->{nodes} * $self->{workers};
    wait_for { $state->session_count == $n } 30,
        "$self->{title}: $n sessions";
}

sub node {
    my ($self, $name) = @_;
    my $redis = $self->{stage}->redis;
    my %token = (
        NODE => $name, SUBJECT => $self->{key}, BENCH => $FindBin::Bin,
        REDIS => $redis->address, REDIS_PORT => $redis->port,
    );
    my %of = (
        MODULES => join("\n", map { "load_module $_;" } $self->modules),
        WORKERS => $self->{workers}, BACKEND => $self->{backend}->address,
        SUBJECT_HTTP => fill($self->{http} // '', %token),
        LOCATIONS => join("\n        ",
            $self->{dsem} ? 'location /dsem/ { dsem_api; }' : (),
            map { $self->location($_, %token) } @{ $self->{cases} }),
    );
    return $self->{stage}->node($name, $CONF, %token, %of);
}

sub modules {
    my ($self) = @_;
    return Dsem::Node::Conf::module() if $self->{dsem};
    return map { "/usr/lib/nginx/modules/$_.so" } @{ $self->{modules} // [] };
}

sub location {
    my ($self, $case, %token) = @_;
    my $line = fill($self->{location} // '', %token,
        NAME => $case->{name}, LIMIT => $case->{limit},
        QUEUE => $case->{queue});
    return "location = /$case->{name} { $line"
        . " proxy_pass http://backend$case->{path}; }";
}

sub fill {
    my ($text, %token) = @_;
    return $text =~ s/%%(\w+)%%/$token{$1}/gr;
}

sub key { $_[0]{key} }
sub title { $_[0]{title} }
sub servers { @{ $_[0]{servers} } }
sub sends { @{ $_[0]{sends} // [] } }
sub capped { $_[0]{key} ne 'plain' }
# rejects requests that other subjects queue
sub refuses { $_[0]{key} eq 'lua' }

sub pids {
    my ($self) = @_;
    return $self->{haproxy}->pid if $self->{haproxy};
    return map { $_->workers } @{ $self->{servers} };
}

# Stops the subject after its measurements, to make room for others.
sub end {
    my ($self) = @_;
    $_->stop for @{ $self->{servers} // [] };
    $self->{haproxy}->end if $self->{haproxy};
}

# What the first node shows.
sub api { return $_[0]{servers}[0]->url('/dsem/semaphores') }

# One URL per node; the same one repeated where there is one host.
sub urls {
    my ($self, $case) = @_;
    my @base = $self->{haproxy} ? ($self->{haproxy}->url) x $self->{nodes}
        : map { $_->url } @{ $self->{servers} };
    return map { s{/$}{}r . "/$case->{name}" } @base;
}

1;
