#!/usr/bin/perl

# Recipe "WebSockets": a connection counts until it is closed, over reloads
# too; one more than the limit is refused at once, and may come when another
# has ended.

use lib qw(t/lib t/run);
use Dsem::Recipe;
use Dsem::Test;
use Fleet::Conf;

my $recipe = recipe('WebSockets');
my $limit = Fleet::Conf::semaphore($recipe, 'sockets')->{limit};

my $t = Dsem::Test->new;
$t->redis;
my $up = $t->upstream;

my @fleet = $t->fleet(2, <<'EOF_CONF' =~ s/%%RECIPE%%/$recipe/r);
%%GLOBALS%%
events { }
http {
    %%HTTP%%
    dsem_redis %%REDIS%%;
    dsem_node %%NODE%%;
    upstream backend {
        server %%UPSTREAM%%;
    }
    server {
        listen 127.0.0.1:%%PORT%%;
        %%RECIPE%%
    }
}
EOF_CONF

my @open = map { open_on($fleet[ $_ % 2 ]) } 1 .. $limit;
is(scalar(grep { head($_) =~ /^HTTP\/1.1 101/ } @open), $limit,
    'limit reached');
is($up->now, $limit, 'all connections at backend');
like(head(open_on($_)), qr/^HTTP\/1.1 503/,
    'next connection rejected') for @fleet;

$open[0]->send('ping');
is($open[0]->read_until(qr/ping/), 'ping', 'connections echo');

# over a reload

$_->reload for @fleet;
is(scalar(map { $_->draining } @fleet), 2, 'old workers still running');
is($up->now, $limit, 'connections kept');
like(head(open_on($_)), qr/^HTTP\/1.1 503/, 'connections counted') for @fleet;
$open[0]->send('pong');
is($open[0]->read_until(qr/pong/), 'pong', 'connections still echo');

# one ends

(pop @open)->close;
eventually { held() == $limit - 1 } 'counted until close';
push @open, open_on($fleet[0]);
like(head($open[-1]), qr/^HTTP\/1.1 101/, 'permit returned');
like(head(open_on($_)), qr/^HTTP\/1.1 503/, 'permit acquired again') for @fleet;
is($up->peak, $limit, 'limit never exceeded');

$_->close for @open;
eventually { held() == 0 && $up->now == 0 } 'nothing left';

done_testing();

sub open_on {
    my ($node) = @_;
    my $socket = $node->raw;
    $socket->send("GET /socket/ HTTP/1.1\r\nHost: a\r\n"
        . "Upgrade: websocket\r\nConnection: Upgrade\r\n\r\n");
    return $socket;
}

sub head { $_[0]->read_until(qr/\r\n\r\n/) }
sub held { $t->state->held('sockets') }
