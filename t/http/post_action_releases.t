#!/usr/bin/perl

# A slow post_action holds no permit: the request has had its response, or its
# client has left, also while the upstream had not responded yet. With
# "dsem_release log" the permit stays until the request is logged.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
$t->redis;
my $up = $t->upstream;

my $node = $t->node('n1', <<'EOF_CONF');
dsem_reuse off;
dsem one limit=1 queue=10 timeout=30s;
lingering_close off;
proxy_set_header X-Sem main;
root %%DIR%%;
map $uri $empty {
    default "";
}
server {
    listen 127.0.0.1:%%PORT%%;
    location /plain {
        proxy_pass http://%%UPSTREAM%%;
    }
    location /upstream {
        post_action @after;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /uri {
        post_action /after;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /static {
        post_action @after;
        try_files /nginx.conf =404;
    }
    location /log {
        post_action @after;
        dsem_release log;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /after {
        proxy_set_header X-Sem after;
        proxy_pass http://%%UPSTREAM%%/?hang=1;
    }
    location @after {
        proxy_set_header X-Sem after;
        proxy_pass http://%%UPSTREAM%%/?hang=1$empty;
    }
}
EOF_CONF

sub during_post_action {
    my ($name) = @_;
    eventually { $up->now('after') == 1 } "$name: post_action running";
    eventually { held() == 0 } 'permit released';
    is($node->get('/plain?t=1')->status, 200, 'other request served');
    $up->release_all;
    wait_for { $up->now('after') == 0 };
}

for my $path ('/upstream', '/uri', '/static') {
    my $request = $node->begin("$path?t=1");
    during_post_action($path);
    is($request->wait->status, 200, 'request served');
    is($node->logged($request)->{dsem_status}, 'PASSED', 'status logged');
}

# the client leaves before the upstream has responded

my $leaver = $node->begin('/upstream?hang=1');
wait_for { $up->now('main') == 1 };
$leaver->close;
during_post_action('client abort');
is($node->logged($leaver)->{dsem_status}, 'PASSED', 'status logged');

# kept until the end

my $request = $node->begin('/log?t=1');
wait_for { $up->now('after') == 1 };
my $other = $node->begin('/plain?t=1');
eventually { waiting() == 1 } 'log: permit held';
$up->release_all;
is($_->wait->status, 200, 'request served') for $request, $other;

is($up->peak('main'), 1, 'one at a time');
eventually { held() == 0 } 'no permit held';

done_testing();

sub held { $t->state->held('one') }
sub waiting { $t->state->waiting('one') }
