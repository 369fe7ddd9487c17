#!/usr/bin/perl

# A limit that is raised serves a long queue at once: in several calls of a
# bounded size, before the operator is answered. A lowered one drains.

use Digest::SHA qw(sha1_hex);
use JSON::PP qw(decode_json);
use lib 't/lib';
use Dsem::Test;

my $WAITING = 150;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $up = $t->upstream;

my ($one, $two) = $t->fleet(2, <<'EOF_CONF');
worker_processes 1;
location /reports {
    dsem reports limit=1 queue=1000 timeout=60s;
    proxy_pass http://%%UPSTREAM%%;
}
location /dsem/ {
    dsem_api write=on;
}
EOF_CONF

sub change {
    my ($body) = @_;
    my $asked = $two->get('/dsem/semaphores/reports', -method => 'PATCH',
        'Content-Type' => 'application/json', -body => $body);
    is $asked->status, 200, "changed: $body";
    return decode_json($asked->body);
}

my $first = $one->begin('/reports?hang=1');
wait_for { $up->now == 1 } 15, 'permit out';
my @running = ($first, map { $one->begin('/reports?hang=1') } 1 .. $WAITING);
eventually { $t->state->waiting('reports') == $WAITING } 'long queue';

my $sha = sha1_hex($t->script('order'));
$redis->cmd(qw(CONFIG SET slowlog-max-len 100000));
$redis->cmd(qw(CONFIG SET slowlog-log-slower-than 0));
my $began = now;
my $answer = change('{"limit": 200}');
cmp_ok took($began), '<', 0.9, 'answered soon';
is "@$answer{qw(limit configured in_use waiting)}", '200 1 151 0',
    'queue served before the answer';
$redis->cmd(qw(CONFIG SET slowlog-log-slower-than -1));
my $calls = grep { $_->[3][0] eq 'EVALSHA' && $_->[3][1] eq $sha }
    @{ $redis->cmd(qw(SLOWLOG GET -1)) };
cmp_ok $calls, '>', 1, 'by several calls';
cmp_ok $calls, '<', 10, 'by some calls';
eventually { $up->now == $WAITING + 1 } 'all requests running';

$answer = change('{"limit": null}');
is "@$answer{qw(limit in_use)}", '1 151', 'lowered limit drains';
is_deeply $answer->{order}, undef, 'no order any more';
$up->release_all;
is scalar(grep { $_->wait->status != 200 } @running), 0, 'requests served';
is $up->peak, 151, 'never more';

$t->done;
