#!/usr/bin/perl

# The benchmarks run: every subject is measured, every scenario has its
# table, and the cap holds meanwhile. What they measure is no matter here: in
# a tenth of a second a busy machine may serve no request of a subject, nor
# reach a limit.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Dsem::Bench qw(said);

for my $there (qw(/usr/bin/wrk /usr/sbin/haproxy
    /usr/lib/nginx/modules/ngx_http_lua_module.so))
{
    plan skip_all => "$there is not there, make bench installs it"
        unless -e $there;
}

local $ENV{ROUNDS} = 1;
local $ENV{SECONDS} = 0.1;
# on a busy machine a figure may be wider than its column
local $Dsem::Bench::wide = qr/\d\.\d/;
my $said = said('bench');

like $said, qr/^with    nginx \d.*Redis \d.*HAProxy \d.*wrk \d/m,
    'machine printed';
my ($quiet, @contended) = split /^The cap is reached/m, $said;
is scalar(@contended), 3, 'three contended cases';
for my $title ('plain proxy_pass', 'limit_conn', 'limit_conn, again',
    'dsem, reuse', 'dsem, no reuse', 'Lua, ZSET per call', 'HAProxy maxconn')
{
    like $quiet, qr/^\Q$title\E +[\d,]+ +\S+ +\d+\.\d\d /m, "$title measured";
}
like $quiet, qr/^dsem, reuse, with [1-9]\d*,?\d* GET \/semaphores/m,
    'API polled';
my $figure = qr/\d\.\d{3}  \(|not measured$/;
like $said, qr/^throughput, API polled \/ not .*(?:$figure)/m,
    'cost of polling';
for (@contended) {
    my ($limit) = /^: limit (\d+)/;
    for my $title ('dsem, reuse', 'dsem, no reuse') {
        my ($peak) = /^$title +(\d+|-) +[-\d]/m;
        cmp_ok $peak =~ s/-/0/r, '<=', $limit, "limit $limit kept: $title";
    }
}
like $said, qr/^goodput, limit 100 .*(?:$figure)/m, 'targets compared';

done_testing();
