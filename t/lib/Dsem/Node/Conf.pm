package Dsem::Node::Conf;

# A node's nginx.conf: what a test's configuration leaves out, the values of its
# tokens, and the command line of nginx.
#
# Called by: Dsem::Node, which inherits from it.

use strict;
use warnings;

use Carp qw(croak);

use Dsem::Late;
use Dsem::Redis;

my @LOGGED = qw(
    request_id status dsem_status dsem_name dsem_wait_time
    dsem_queue_position dsem_limit dsem_in_use dsem_remaining dsem_wait_estimate
    dsem_key request_uri request_method
    request_time msec pid connection upstream_addr upstream_status
    upstream_response_time http_x_nonce
);

# undef: linked in
sub module {
    return $ENV{DSEM_STATIC_NGINX} ? undef : $ENV{DSEM_MODULE}
        // Dsem::Test->root . '/build/ngx_http_dsem_module.so';
}

sub has_module { !defined module() || -e module() }

sub load_module {
    my $module = module();
    return defined $module && -e $module ? "load_module $module;" : ();
}

sub _globals {
    my ($self) = @_;
    my $level = $ENV{DSEM_DEBUG} ? 'debug' : 'info';
    return join "\n",
        load_module(),
        "error_log $self->{dir}/error.log $level;",
        "pid $self->{dir}/nginx.pid;",
        # inherited by the new binary of an upgrade
        map({ $ENV{$_} ? "env $_;" : () } qw(ASAN_OPTIONS UBSAN_OPTIONS)),
        map({ "env $_;" } Dsem::Late::names()),
        # workers write below the test's directory
        ($> == 0 ? 'user root;' : ());
}

sub _http {
    my ($self) = @_;
    my $dir = $self->{dir};
    my @logged = grep { has_module() || !/^dsem/ } @LOGGED;
    my $format = join ',', map { qq("$_":"\$$_") } @logged;
    # a busy machine must not make Redis unavailable, and no test need wait for
    # idle permits at its end; a test of these times has its own
    my %timeout = (dsem_redis_connect_timeout => '2s',
        dsem_redis_timeout => '3s', dsem_reuse => '100ms');
    my @timeouts = grep { has_module() && $self->{conf} !~ /\b$_\b/ }
        sort keys %timeout;
    return join "\n",
        map({ "$_ $timeout{$_};" } @timeouts),
        map({ "${_}_temp_path $dir/temp/$_;" }
            qw(client_body proxy fastcgi uwsgi scgi)),
        "log_format dsem_test escape=json '{$format}';",
        "access_log $dir/access.log dsem_test;";
}

sub _token {
    my ($self, $token) = @_;
    my $t = $self->{t};
    return $self->{token}{$token} if exists $self->{token}{$token};
    return $self->port($1 || 1) if $token =~ /^PORT(\d*)$/;
    return $self->{dir} if $token eq 'DIR';
    return $self->{name} if $token eq 'NODE';
    return $self->_globals if $token =~ /^(?:TEST_)?GLOBALS$/;
    return $self->_http if $token =~ /^(?:TEST_GLOBALS_)?HTTP$/;
    return $t->{sentinel}->addresses if $token eq 'SENTINELS';
    return $t->{sentinel}->name if $token eq 'MASTER';
    my $of = $token =~ /^UPSTREAM/ ? $t->{upstreams}[-1]
        : $token eq 'DNS' ? $t->{dns}[-1] : $t->{redis}[-1];
    croak "nothing started for %%$token%%" unless $of;
    return $of->address if $token =~ /^(?:UPSTREAM|REDIS|DNS)$/;
    return $of->address($1) if $token =~ /^UPSTREAM(\d+)$/;
    return $of->unix if $token eq 'REDIS_UNIX';
    croak "unknown token %%$token%%";
}

# A configuration without events {} is what stands in http {}, below the number
# of processes and of connections; one without a server is what stands in the
# only one, but for the lines that begin with "dsem_": they stand above it.
sub _all_of {
    my ($conf) = @_;
    return $conf if $conf =~ /\bevents \{/;
    my ($processes, $connections, $http) = $conf
        =~ /\A(worker_processes \d+;\n)?(worker_connections \d+;)?(.*)\z/s;
    if ($http !~ /^server \{/m) {
        my $above = '';
        $http =~ s/^(dsem_\w+\s[^;]*;.*\n)/$above .= $1; ''/gme;
        $http = "${above}server {\nlisten 127.0.0.1:%%PORT%%;\n$http}\n";
    }
    $connections //= '';
    return join "\n", '%%GLOBALS%%', $processes // (),
        "events { $connections }", 'http {', '%%HTTP%%',
        $http =~ /^dsem_redis\s/m ? () : 'dsem_redis %%REDIS%%;',
        'dsem_node %%NODE%%;', "$http}\n";
}

sub write_conf {
    my ($self, $conf) = @_;
    $self->{conf} = $conf if defined $conf;
    my $text = _all_of($self->{conf});
    $text =~ s/%%(\w+)%%/$self->_token($1)/eg;
    my $login = Dsem::Redis->login;
    $text =~ s/(\bdsem_redis\s(?:(?!user=|password)[^;])*);/$1$login;/g;
    $self->{text} = $text;
    my $path = "$self->{dir}/nginx.conf";
    open my $fh, '>', $path or croak "$path: $!";
    print $fh $text;
    close $fh;
    return $self;
}

sub _argv {
    my ($self, @more) = @_;
    my $nginx = $ENV{DSEM_NGINX} // 'nginx';
    local $ENV{PATH} = "$ENV{PATH}:/usr/sbin:/usr/local/sbin";
    my ($path) = grep { -x } $nginx, map { "$_/$nginx" } split /:/, $ENV{PATH};
    return ($path // $nginx, '-p', "$self->{dir}/", '-c', 'nginx.conf',
        '-e', 'error.log', @more);
}

# Whether nginx writes lines of the level debug.
sub debug {
    my ($self) = @_;
    my @command = map { "'$_'" } $self->_argv('-V');
    return qx(@command 2>&1) =~ / --with-debug\b/;
}

# (exit status, stderr) of nginx -t
sub test {
    my ($self) = @_;
    $self->write_conf;
    my @command = map { "'$_'" } $self->_argv('-t');
    my $said = qx(@command 2>&1 >/dev/null);
    return ($? >> 8 || $? & 127, $said);
}

1;
