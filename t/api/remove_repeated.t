#!/usr/bin/perl

# A session that is removed by force again and again registers under another
# name each time, and Redis is available all the while: the pauses before its
# worker connects again, which become longer, are no time to connect.

use lib 't/lib';
use Dsem::Test;

# seconds; after the fourth removal each pause is five sixths of a second, but for
# a quarter
my ($REMOVALS, $PAUSES) = (7, 1.8);

my $t = Dsem::Test->new;
my $redis = $t->redis;
$t->upstream;

my ($node, $removed) = $t->fleet(2, <<'EOF_CONF');
worker_processes 1;
dsem_redis_connect_timeout 500ms;
dsem_reuse off;
location / {
    dsem a limit=2;
    proxy_pass http://%%UPSTREAM%%;
}
location /dsem/ {
    dsem_api write=on;
}
EOF_CONF
$redis->all_beat(2);

my %removed;
my $began = now;
for (1 .. $REMOVALS) {
    my ($session) = of_removed();
    my $answer = $node->get("/dsem/sessions/$session", -method => 'DELETE',
        -body => '{"force":true}', 'Content-Type' => 'application/json');
    is $answer->status, 200, 'removed';
    $removed{$session} = 1;

    # it finds that out by the next command
    $removed->get('/');
    wait_for { of_removed() } 15, 'another name';
    wait_for { $removed->get('/dsem/health')->status == 200 } 15, 'accepted';
}
cmp_ok now - $began, '>', $PAUSES, 'with pauses';
is scalar(keys %removed), $REMOVALS, 'another name each time';
is scalar($removed->grep_log(qr/unavailable \(session removed\)/)), 0,
    'redis available';

$t->done;

# Of the other node, which has not been removed yet.
sub of_removed { return grep { /^n2:/ && !$removed{$_} } $t->state->sessions }
