#!/usr/bin/perl

# Answers of the API that are made in several turns, with the main log at debug:
# nginx logs timers there, of which it reads the data.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
$t->redis;
my $names = join '', map { "location /$_ { dsem name$_ limit=1; }\n" } 1 .. 60;
my $node = $t->node('a', <<'EOF_CONF' =~ s/%%NAMES%%/$names/r);
%%GLOBALS%%
error_log error.log debug;
events { }
http {
    %%HTTP%%
    dsem_redis %%REDIS%%;
    dsem_node %%NODE%%;
    server {
        listen 127.0.0.1:%%PORT%%;
        %%NAMES%%
        location /dsem/ { dsem_api; }
    }
}
EOF_CONF

is $node->get("/dsem/$_")->status, 200, "$_ answered"
    for qw(metrics semaphores);
ok $node->grep_log(qr/dsem api waits for the next turn/),
    'in several turns';

$t->done;
