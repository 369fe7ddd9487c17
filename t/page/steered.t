#!/usr/bin/perl

# The page changes limits, pauses and resumes, for the whole fleet, and removes
# the session of a lost node. The backend sees it within a second.

use lib 't/lib';
use Dsem::Browser qw(browser_missing);
use Dsem::Test;

plan skip_all => browser_missing() if browser_missing();

my $t = Dsem::Test->new;
my $browser = Dsem::Browser->new($t);
my $redis = $t->redis;
my $up = $t->upstream;

my ($node, $other) = $t->fleet(2, <<'EOF_CONF');
dsem_lease 60s;
location / {
    dsem reports limit=2 queue=10 timeout=60s;
    proxy_pass http://%%UPSTREAM%%;
}
location /dsem/ {
    dsem_api write=on;
}
EOF_CONF

my @held = ($node->begin('/?hang=1', 'X-Nonce' => 'first'),
    $other->begin('/?hang=1'));
wait_for { $up->now == 2 };
push @held, map { $node->begin('/?hang=1') } 1 .. 3;
$browser->open($node->url('/dsem/'), width => 1400, height => 700);
$browser->evaluate('settings.poll = 250');
eventually { $browser->count('tr.row button') == 1 } 'row there';
$browser->click('tr.row button');
ok($browser->evaluate('document.querySelector(".control input").value === "2"'),
    'limit in force to begin with');

# the limit: raised, lowered to nothing, back

limit(4);
eventually { $up->now == 4 } 'raised: the queue is served', 5;
eventually { said() eq 'Limit 4 is in force.' } 'told';
eventually { $browser->text('.marks') =~ /limit ordered/ } 'marked';
like($browser->text('#views'), qr/Ordered\s*1/, 'counted');
like($browser->text('.details'),
    qr/In force: 4, configured: 2, ordered: 4\./, 'both limits');

limit(0);
like($browser->text('dialog'), qr/no new request passes/, 'asked for 0');
$browser->screenshot('question-1400');
is_deeply([$browser->findings], [], 'question: nothing serious');
$browser->press('Escape');
is($browser->count('dialog[open]'), 0, 'closed by Escape');
is($browser->count('.details'), 1, 'and only the question');
is($up->now, 4, 'nothing happened');

limit('1e9');
like(said(), qr/^A limit is a whole number/, 'no number');
limit(3);
eventually { said() eq 'Limit 3 is in force.' } 'lowered';
$up->release_nonce('first');
eventually { $browser->evaluate(q{table.rows.get('reports').figures.data
    .in_use}) == 3 } 'drains to the limit';

$browser->click('text=Back to configured (2)');
eventually { said() eq 'The configured limit is in force.' } 'configured';
eventually { $browser->evaluate(
    'document.querySelector(".control + .control button").disabled') }
    'nothing to go back to';
eventually { $browser->text('#views') =~ /Ordered\s*0/ } 'none is ordered';

# pause and resume, with a permit of a node that is lost

$other->kill;
$browser->click('.details button >> text=Pause');
like($browser->text('dialog'),
    qr/^Pause reports\?.*no permits are granted.*3 permits in use/s,
    'told what it does');
$browser->click('#dialog-yes');
eventually { said() eq 'Paused.' } 'paused';
# from Redis, which has sent the workers its message by then
eventually { $browser->evaluate('document.title') =~ /1 paused/ } 'title tells';
like($browser->text('.marks'), qr/paused/, 'marked');
$up->release_all;
eventually { $up->now == 0 } 'requests in progress finish';
my $late = $node->begin('/?hang=1');
eventually { $browser->evaluate(q{table.rows.get('reports').figures.data
    .waiting}) == 2 } 'two wait';
is($up->now, 0, 'none passes');
like($browser->text('#fleet-more'), qr/^holding or waiting: n1 \(1\)/,
    'a worker that waits has no permits');
$browser->screenshot('paused-1400');
$browser->click('.details button >> text=Resume');
eventually { $up->now == 1 } 'resumed: one passes', 5;
eventually { said() eq 'Resumed.' } 'told';

# its session, which lasts for a lease otherwise

eventually { $browser->count('.holders button') == 1 } 'a silent session';
$browser->screenshot('silent-1400');
$browser->click('.holders button');
like($browser->text('dialog'), qr/n2:0:.*Its 1 permit /s, 'told what it does');
$browser->click('#dialog-yes');
eventually { said() =~ /^Session n2:0:\w+ is removed\.$/ } 'removed';
eventually { $up->now == 2 } 'its permit serves the queue', 5;

is_deeply([$browser->problems], [], 'no error, nothing against the policy');
$up->release_all;

done_testing();

sub limit {
    my ($value) = @_;
    $browser->fill('.control input', $value);
    $browser->press('Enter');
}

sub said { return $browser->text('.control ~ .said') }
