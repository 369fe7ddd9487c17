#!/usr/bin/perl

# post_action into a limited location: it runs after the answer, or after the
# client has left, wants no permit, and waits for none. Whoever left while
# waiting has left the queue before it runs.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
$t->redis;
my $up = $t->upstream;

my $node = $t->node('n1', <<'EOF_CONF');
dsem one limit=1 queue=10 timeout=30s;
server {
    listen 127.0.0.1:%%PORT%%;
    location / {
        proxy_set_header X-Sem main;
        post_action @after;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /impatient {
        dsem one limit=1;
        post_action @after;
        proxy_pass http://%%UPSTREAM%%;
    }
    location @after {
        proxy_set_header X-Sem after;
        proxy_pass http://%%UPSTREAM%%/after?$arg_after=1;
    }
}
EOF_CONF

is($node->get('/')->status, 200, 'request served');
eventually { $up->served == 2 } 'post_action run afterwards';
eventually { state() eq '0 0' } 'nothing left';

$up->reset;
my $load = $t->load(urls => [$node->url('/?t=2')], clients => 10,
    requests => 50);
is_deeply($load->{statuses}, { 200 => 50 }, 'all requests served');
eventually { after() == 50 } 'one post_action each';
is($up->peak('main'), 1, 'limit reached');
eventually { state() eq '0 0' } 'nothing left';

# while somebody else has the permit

my $holder = $node->begin('/?hang=1');
wait_for { $up->now == 1 };
$up->reset;
is($node->get('/impatient')->status, 503, 'request rejected');
eventually { after() == 1 } 'post_action run at once';

my $leaver = $node->begin('/?t=1');
wait_for { state() eq '1 1' };
$leaver->close;
eventually { after() == 2 } 'post_action after client abort';
is(state(), '1 0', 'ticket removed');

my $hanging = $node->begin('/?after=hang');
wait_for { state() eq '1 1' };
$hanging->close;
eventually { $up->now('after') == 1 } 'slow post_action after abort';
is(state(), '1 0', 'ticket already removed');
my $next = $node->begin('/');
wait_for { state() eq '1 1' };
$up->release_all;
is($_->wait->status, 200, 'request served') for $holder, $next;
is($up->peak('main'), 1, 'one at a time');
eventually { after() == 5 && state() eq '0 0' } 'nothing left';

done_testing();

sub after { scalar grep { $_->{sem} eq 'after' && $_->{end} } $up->log }

# permits held and tickets waiting
sub state { return $t->state->counts('one') }
