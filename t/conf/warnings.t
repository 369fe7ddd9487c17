#!/usr/bin/perl

# Configurations that are valid, but hardly meant so: nginx -t warns, with the
# word at fault, and accepts them.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Dsem::Test;

my $needs = 'needs "queue", without it no request waits for a permit';

my @cases = (
    ['dsem a limit=1 timeout=1s;',
        qq("timeout" parameter in "dsem" directive $needs)],
    ['dsem a limit=1 queue=0 priority=1;',
        qq("priority" parameter in "dsem" directive $needs)],
    ['dsem a limit=1 queue=5 timeout=1s priority=1;'],
    ['dsem a limit=1;'],
    ['dsem_lease 1s; dsem_redis_timeout 2s;',
        '"dsem_redis_timeout" is longer than "dsem_lease"'],
    ['dsem_lease 2s; dsem_redis_timeout 2s;'],
    [''],
);

my $t = Dsem::Test->new;

for (@cases) {
    my ($http, $warning) = @$_;
    my ($status, $errors) = $t->test_conf(<<"EOF_CONF");
%%GLOBALS%%
events { }
http {
    %%HTTP%%
    $http
    server {
        listen 127.0.0.1:%%PORT%%;
    }
}
EOF_CONF
    is $status, 0, "accepted: $http";
    if (defined $warning) {
        like $errors, qr/\[warn\] \Q$warning\E/, 'warning printed';
    } else {
        unlike $errors, qr/\[warn\]/, 'no warning';
    }
}

$t->done;
