#!/usr/bin/perl

# What PATCH and DELETE change is obeyed at the backend, by all nodes at once:
# a limit that is cut drains, one that is raised serves the queue, a pause
# stops, null goes back to the configuration. Each change is logged with its
# author.

###############################################################################

use lib 't/lib';
use Cpanel::JSON::XS ();
use MIME::Base64 qw(encode_base64);

use Dsem::Clock;
use Dsem::Test;

###############################################################################

my $json = Cpanel::JSON::XS->new->utf8;
my $t = Dsem::Test->new;
my $clock = Dsem::Clock->new($t, monotonic => 1);
my $redis = $t->redis;
my $up = $t->upstream;

my ($node, $other) = $clock->fleet(2, <<'EOF_CONF');
dsem_reuse 60s;
dsem_redis_timeout 2s;
location / {
    dsem a limit=4 queue=50 timeout=30s;
    proxy_pass http://%%UPSTREAM%%;
}
location /dsem/ {
    dsem_api write=on;
}
EOF_CONF

# cut: what is in use ends, and no more than the new limit begins

my @requests = map { $_->begin('/?hang=1') } ($node, $other) x 5;
wait_for { $up->now == 4 && $t->state->waiting('a') == 6 } 15, 'four and six';

# a worker serves its own next request while a reply is late: none ever is
$clock->stop;
is_deeply(patch($node, limit => 2), { name => 'a', limit => 2,
    configured => 4, order => { limit => 2, paused => 0 }, in_use => 4,
    waiting => 6 }, 'limit cut');
logged($node, 'limit none -> 2, paused no -> no, by 127.0.0.1 (user "-"), '
    . 'limit in force 2');
$up->release(2);
wait_for { $up->served == 2 && $t->state->held('a') == 2 } 15, 'two left';
is($up->now . ' ' . $t->state->waiting('a'), '2 6', 'none in their place');
$up->release(2);
wait_for { $up->now == 2 && $t->state->waiting('a') == 4 } 15, 'two and four';
pass('drained to the new limit');
$clock->go;

# raised: the queue is served at once

is(patch($other, limit => 5)->{in_use}, 5, 'limit raised, three granted');
eventually { $up->now == 5 && $t->state->waiting('a') == 1 } 'queue served', 5;
logged($other, 'limit 2 -> 5, paused no -> no, by 127.0.0.1 (user "-"), '
    . 'limit in force 5');

# paused: nothing begins; its end serves the queue

is(one($node)->{order}{limit}, 5, 'ordered limit is read');
my $user = encode_base64("night\nshift:secret", '');
is_deeply(patch($node, paused => Cpanel::JSON::XS::true,
    Authorization => "Basic $user")->{order}, { limit => 5, paused => 1 },
    'paused');
logged($node, 'limit 5 -> 5, paused no -> yes, by 127.0.0.1 (user '
    . '"night%0Ashift"), limit in force 5');
unlike($node->error_log, qr/secret/, 'no password in the log');
ok(one($node)->{order}{paused}, 'figures are not older than the pause');
$clock->stop;
is($t->state->counts('a'), '5 1', 'the count is kept');
$up->release(5);
wait_for { $t->state->held('a') == 0 } 15, 'five permits back';
$clock->go;
my $during = $other->begin('/?hang=1');
wait_for { $t->state->waiting('a') == 2 } 15, 'two waiting';
is($up->now, 0, 'nothing at the backend');
is(patch($node, paused => Cpanel::JSON::XS::false)->{in_use}, 2,
    'two granted');
ok(!one($node)->{order}{paused}, 'nor than its end');
eventually { $up->now == 2 } 'both at the backend', 5;

# null: the configured limit

is_deeply(patch($node, limit => undef), { name => 'a', limit => 4,
    configured => 4, order => undef, in_use => 2, waiting => 0 },
    'configured limit');
logged($node, 'limit 5 -> none, paused no -> no, by 127.0.0.1 (user "-"), '
    . 'limit in force 4');
$up->release_all;
is($_->wait->status, 200, 'answered') for @requests, $during;

# idle permits beyond a new limit go back though nothing waits

# a worker keeps none while it knows of requests that wait, as those of before may
wait_for {
    my @pairs = map { $_->begin('/?hang=1') } ($node, $other) x 2;
    wait_for { $up->now == 4 } 15, 'four at the backend';
    $up->release_all;
    $_->wait for @pairs;
    $t->state->held('a') > 1;
} 15, 'permits idle';
patch($other, limit => 1);
eventually { $t->state->held('a') <= 1 } 'idle permits recalled';
patch($other, limit => 0);
eventually { $t->state->held('a') == 0 } 'all of them';
my $none = $node->begin('/');
is($none->wait->status, 503, 'limit 0');
patch($other, limit => undef);

# a limit of a name that Redis does not know yet

is_deeply(patch_of($node, 'later', limit => 3), { name => 'later',
    limit => 3, configured => undef, order => { limit => 3, paused => 0 },
    in_use => 0, waiting => 0 }, 'order ahead');
patch_of($node, 'later', limit => undef);

# a session that is heard from stays, unless it is forced out

my $held = $other->begin('/?hang=1');
wait_for { $up->now == 1 } 15, 'one at the backend';
my ($session) = map { $_->{session} }
    grep { $_->{held} } @{ one($node)->{sessions} };
like($session, qr/^n2:0:/, 'its session');
my $refused = remove($node, $session);
is($refused->status, 409, 'heard from');
like($json->decode($refused->body)->{error}, qr/heard from.*force/,
    'what force risks');
is(remove($node, $session, '{"force":false}')->status, 409, 'not forced');
is($t->state->held('a'), 1, 'permit kept');
my $removed = remove($node, $session, '{"force":true}');
is($removed->status, 200, 'removed');
is(scalar(grep { $_->{session} eq $session } @{ one($node)->{sessions} }), 0,
    'figures do not have it any more');
is_deeply($json->decode($removed->body),
    { session => $session, removed => Cpanel::JSON::XS::true }, 'so it says');
my $text = qq(session $session removed by force by 127.0.0.1 (user "-"), )
    . 'its permits are released';
is(scalar($node->grep_log(qr/\[notice\].*dsem: \Q$text\E/)), 1, 'logged');
is(remove($node, $session, '{"force":true}')->status, 404, 'once');
wait_for { $t->state->session_count == 2 } 15, 'a new session';
$up->release_all;
is($held->wait->status, 200, 'its request ended');
is($other->get('/?t=0')->status, 200, 'its worker serves');

# a session of a node that is gone

my $lost = 'n3:0:00000000000000ab';
my ($now) = $t->state->shard('clock');
$t->state->enter($lost, epoch => 1, lease => 5000,
    lease_end => $now + 2000);
is(remove($node, $lost)->status, 200, 'not heard from');
is(scalar($node->grep_log(qr/dsem: session \Q$lost\E removed by 127/)), 1,
    'logged');

# Redis frozen

# clients leave; the other node has not read any figures yet
$redis->freeze;
my @left = ((map { $other->begin("/dsem/$_") }
    qw(semaphores semaphores/a metrics)), $node->begin('/dsem/semaphores/a', -method => 'PATCH',
    -body => '{"limit":3}', 'Content-Type' => 'application/json'));
# their workers have read them
$_->get('/dsem/health') for $node, $other;
is($_->status, undef, 'waits') for @left;
$_->abort for @left;
my $frozen = $node->begin('/dsem/semaphores/a', -method => 'PATCH',
    -body => '{"limit":3}', 'Content-Type' => 'application/json');
is($frozen->wait->status, 503, 'Redis frozen');
is(scalar(grep { $_->{request_uri} =~ m{^/dsem/[sm]} && $_->{status} == 499 }
    $other->access_log), 3, 'closed with their clients');
like($json->decode($frozen->body)->{error}, qr/may have been made/,
    'what may be');
is(scalar($node->grep_log(qr/no reply to a change of "a" by 127/)), 2,
    'both logged, also where the client has left');
$redis->thaw;
wait_for { $node->get('/dsem/health')->status == 200 } 15, 'available';
is(patch($node, limit => undef)->{order}, undef, 'order ended');
$frozen->close;
# idle permits are released
patch($other, limit => 0);

done_testing();

###############################################################################

sub patch {
    my ($on, %change) = @_;
    return patch_of($on, 'a', %change);
}

sub patch_of {
    my ($on, $name, %change) = @_;
    my $login = delete $change{Authorization};
    my $r = $on->get("/dsem/semaphores/$name", -method => 'PATCH',
        'Content-Type' => 'application/json', Authorization => $login,
        -body => $json->encode(\%change));
    my $body = $json->decode($r->body);
    $body->{order}{paused} += 0 if $body->{order};
    return $body;
}

sub remove {
    my ($on, $session, $body) = @_;
    my $r = $on->get("/dsem/sessions/$session", -method => 'DELETE',
        defined $body ? (-body => $body,
            'Content-Type' => 'application/json') : ());
    # else nginx waits for the client
    $r->close;
    return $r;
}

sub one {
    my ($on) = @_;
    return $json->decode($on->get('/dsem/semaphores/a')->body)->{semaphore};
}

sub logged {
    my ($on, $change) = @_;
    is(scalar($on->grep_log(
        qr/\[notice\].*dsem: order for semaphore "a": \Q$change\E, client/)),
        1, 'logged');
}
