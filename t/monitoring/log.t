#!/usr/bin/perl

# The access log of monitoring/dsem.log.conf: each line is JSON with all
# variables of the module, whatever the client has sent.

###############################################################################

use lib 't/lib';
use Cpanel::JSON::XS;
use Digest::SHA qw(sha1_hex);

use Dsem::Monitoring;
use Dsem::Test;

my $t = Dsem::Test->new;
$t->redis;
$t->upstream;
my $monitoring = Dsem::Monitoring->new($t);

my $node = $t->node('n1', <<'EOF_CONF', FORMAT => $monitoring->path('dsem.log.conf'));
%%GLOBALS%%
events { }
http {
    %%HTTP%%
    include %%FORMAT%%;
    access_log %%DIR%%/dsem.log dsem;
    dsem_redis %%REDIS%%;
    large_client_header_buffers 4 32k;
    server {
        listen 127.0.0.1:%%PORT%%;
        location /header {
            dsem $http_x_name limit=1;
            proxy_pass http://%%UPSTREAM%%;
        }
        location ~ (?s)^/decoded/(?<decoded>.*)$ {
            dsem $decoded limit=1;
            rewrite ^ / break;
            proxy_pass http://%%UPSTREAM%%;
        }
        location /off {
            proxy_pass http://%%UPSTREAM%%;
        }
    }
}
EOF_CONF

# what is sent, and the name in the log

my @sent = (
    ['/header', 'plain', 'plain'],
    ['/header', '"><script>', '%22%3E%3Cscript%3E'],
    ['/header', "back\\slash", 'back%5Cslash'],
    ['/header', "\xff\xfe", '%FF%FE'],
    ['/header', "\xc3\xa4", '%C3%A4'],
    ['/header', 'n' x 300, 'n' x 64 . '~' . sha1_hex('n' x 300)],
    ['/decoded/a%0Ab%01c%22', undef, 'a%0Ab%01c%22'],
    ["/header?a=\"\\\xff", 'bytes', 'bytes'],
    ['/off?"', undef, ''],
);
for (@sent) {
    my ($path, $name) = @$_;
    is($node->get($path, defined $name ? ('X-Name' => $name) : ())->status,
        200, "request $path");
}

my $log = $node->dir . '/dsem.log';
my @lines;
wait_for {
    @lines = split /\n/, $monitoring->slurp($log);
    @lines == @sent;
} 10, 'a line for each request';

my $json = Cpanel::JSON::XS->new->ascii;
for my $i (0 .. $#sent) {
    my ($path, undef, $name) = @{ $sent[$i] };
    unlike($lines[$i], qr/[^\x20-\x7e]/, "$path: ASCII");
    my $got = eval { $json->decode($lines[$i]) } or diag $@;
    ok($got, "$path: JSON") or next;
    is(substr($got->{dsem_name}, 0, length $name), $name, "$path: name");
    is($got->{uri}, $path =~ /\xff/ ? '' : $path, "$path: URI");
    is($got->{dsem_status}, $name eq '' ? '' : 'PASSED', "$path: status");
}

# every variable of the module, by its name

my %source = map { $_ => 1 } $monitoring->source =~
    /ngx_string\("(dsem_\w+)"\), NULL,/g;
my %logged = $monitoring->text('dsem.log.conf') =~ /"(dsem_\w+)":"\$(\w+)"/g;
is_deeply(\%logged, { map { $_ => $_ } keys %source }, 'all variables');

done_testing();
