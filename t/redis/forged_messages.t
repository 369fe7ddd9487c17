#!/usr/bin/perl

# A client of Redis that may publish, and read no key, forges messages. Epochs
# and tickets are easily guessed, the channel is listed. No request is admitted,
# and no message has any effect; the first of them is logged, all are counted.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $up = $t->upstream;

my $node = $t->node('a', <<'EOF_CONF');
worker_processes 1;
location /waits {
    dsem api limit=1 queue=10 timeout=30s;
    proxy_pass http://%%UPSTREAM%%;
}
location /dsem/ { dsem_api; }
EOF_CONF

sub logged {
    return $node->grep_log(qr/\[warn\].* dsem: message to session /);
}

sub counted {
    my ($n) = $node->get('/dsem/metrics')->body
        =~ /^dsem_foreign_messages_total (\d+)$/m;
    return $n;
}

my @requests = $node->begin('/waits?hang=1');
eventually { $up->now == 1 } 'one request running';
push @requests, map { $node->begin('/waits?hang=1') } 1 .. 4;
eventually { $t->state->waiting('api') == 4 } 'four requests queued';
$redis->beats(1, 'the subscription is made', 15);

$redis->cmd(qw(ACL SETUSER mallory on >guest resetkeys ~tenant:* allchannels
    -@all +auth +publish +pubsub));
my $mallory = $t->connect;
$mallory->cmd(qw(AUTH mallory guest));
ok !eval { $mallory->cmd('HGETALL', $t->state->key) }, 'keys not readable';

my ($channel) = @{ $mallory->cmd('PUBSUB', 'CHANNELS', 'dsem:*') };
my $entry = (values %{ $t->state->entries })[0];
like $entry->{seal}, qr/^[0-9a-f]{16}$/, 'session has a seal';
my @texts = map { ("grant api $_ 1 1 " . join(' ', 1 .. 30), "drop api $_",
    "recall api $_", "reclaimed api $_ 9", "order api $_ mine",
    "limit api $_ 0 mallory") } 0 .. 5;
push @texts, 'recovered', 'sessions 1000000', 'beat 1', 'subscribed';
my @seals = ('', ' ', '0' x 16 . ' ', 'f' x 16 . ' ', uc("$entry->{seal} "),
    substr($entry->{seal}, 0, 15) . ' ', "$entry->{seal}0 ",
    " $entry->{seal} ", "\0$entry->{seal} ");
@seals = grep { $_ ne "$entry->{seal} " } @seals;
my $sent = 0;
for my $seal (@seals) {
    $sent += $mallory->cmd('PUBLISH', $channel, $seal . $_) for @texts;
}
is $sent, @seals * @texts, 'messages delivered';

eventually { counted() == $sent } 'messages counted';
is $up->now, 1, 'no request admitted';
is $t->state->waiting('api'), 4, 'all others wait';
is scalar(logged()), 1, 'logged once';
unlike join('', $node->grep_log(qr/mallory|mine/)), qr/dsem: /,
    'nothing believed';

# with the seal a message is believed: this one is
$redis->cmd('PUBLISH', $channel, "$entry->{seal} order api $entry->{epoch} 5;");
eventually { $node->grep_log(qr/order "5%3B" of "api" ignored/) }
    'message with the seal read';
is counted(), $sent, 'and not counted';

$up->release_all;
for (1 .. 4) {
    eventually { $up->now == 1 } 'next request in turn';
    $up->release_all;
}
is $_->wait->status, 200, 'request served' for @requests;
is $up->peak, 1, 'limit never exceeded';

$t->done;
