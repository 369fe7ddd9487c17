#!/usr/bin/perl

# Recipe "Headless browsers": sessions and rendered pages share the browsers of
# the fleet, a waiting session is served before a page, and a session takes its
# browser until it is closed.

use lib qw(t/lib t/run);
use Dsem::Recipe;
use Dsem::Test;
use Fleet::Conf;

my $recipe = recipe('Headless browsers',
    'server 10.0.1.1:3000 max_conns=6;' => 'server %%UPSTREAM%%;',
    'server 10.0.1.2:3000 max_conns=6;' => '');
my $limit = Fleet::Conf::semaphore($recipe, 'browsers')->{limit};

my $t = Dsem::Test->new;
$t->redis;
my $up = $t->upstream;

my @fleet = $t->fleet(2, <<'EOF_CONF' =~ s/%%RECIPE%%/$recipe/r);
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    dsem_redis %%REDIS%%;
    dsem_node %%NODE%%;
    %%RECIPE%%
}
EOF_CONF

my @open = map { session($fleet[ $_ % 2 ]) } 1 .. $limit;
like head($_), qr/^HTTP\/1.1 101/, 'a session' for @open;
is $up->now, $limit, 'all browsers in use';

my $page = $fleet[0]->begin('/render/?t=1');
wait_for { $t->state->waiting('browsers') == 1 } 15, 'a page waits';
my $next = session($fleet[1]);
wait_for { $t->state->waiting('browsers') == 2 } 15, 'a session waits';

(shift @open)->close;
like head($next), qr/^HTTP\/1.1 101/, 'the session first';
is $t->state->waiting('browsers'), 1, 'the page waits on';
$open[0]->send('ping');
is $open[0]->read_until(qr/ping/), 'ping', 'sessions are open';
(shift @open)->close;
is $page->wait->status, 200, 'the page, when another one is closed';
is $up->peak, $limit, 'never more than the browsers';

$_->close for @open, $next;
eventually { $up->now == 0 } 'nothing left';

$t->done;

sub session {
    my ($node) = @_;
    return $node->raw->send("GET /session HTTP/1.1\r\nHost: a\r\n"
        . "Upgrade: websocket\r\nConnection: Upgrade\r\n\r\n");
}

sub head { return $_[0]->read_until(qr/\r\n\r\n/) }
