#!/usr/bin/perl

# The page of a fleet with more nodes than an answer lists: the number of
# workers is that of the whole fleet, and nodes are named as what is missing.

use lib 't/lib';
use Dsem::Browser qw(browser_missing);
use Dsem::Test;

plan skip_all => browser_missing() if browser_missing();

my $t = Dsem::Test->new;
my $browser = Dsem::Browser->new($t);
$t->redis;
my $node = $t->node('n1', <<'EOF_CONF');
location / {
    dsem reports limit=5;
    return 204;
}
location /dsem/ {
    dsem_api;
}
EOF_CONF

$browser->open($node->url('/dsem/'));
$browser->evaluate('settings.poll = 250');
eventually { $browser->text('#fleet') eq '1 worker on 1 node' } 'a small fleet';

# answers as they are in a large one

$browser->evaluate(<<'EOF_JS');
    window.large = { sessions: 600, partial: true, nodes: 256 };
    const { fetch } = window;
    window.fetch = async (...all) => {
        const answer = await (await fetch(...all)).json();
        Object.assign(answer.fleet, large, {
            nodes: Array.from({ length: large.nodes }, (_, i) => (
                { node: `n${i}`, sessions: 2, holding: 0, heartbeat: 0.1 })),
        });
        return new Response(JSON.stringify(answer));
    };
EOF_JS
eventually { $browser->text('#fleet') eq '600 workers on more than 256 nodes' }
    'all workers';
like banner(), qr/more nodes than are listed/, 'nodes are missing';
is_deeply [$browser->findings], [], 'nothing serious';

# what is missing may be something else

$browser->evaluate('large.sessions = 512');
eventually { $browser->text('#fleet') eq '512 workers on 256 nodes' }
    'all nodes are listed';
like banner(), qr/more semaphores than are read, or a shard could not be asked/,
    'semaphores are missing';
$browser->evaluate('large.partial = false');
eventually { !$browser->count('[data-about="partial"]') } 'nothing is';

is_deeply [$browser->problems], [], 'no error, nothing against the policy';

$t->done;

sub banner { return $browser->text('[data-about="partial"]') }
