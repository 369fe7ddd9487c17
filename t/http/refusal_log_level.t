#!/usr/bin/perl

# Refusals are logged at the level of dsem_log_level, whatever the reason.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $up = $t->upstream;

my $node = $t->node('n1', <<'EOF_CONF');
dsem_redis_connect_timeout 300ms;
dsem_on_error reject;
dsem one limit=$http_limit queue=10 timeout=$http_timeout;
server {
    listen 127.0.0.1:%%PORT%%;
    location /error/ { # the default
        proxy_pass http://%%UPSTREAM%%;
    }
    location /warn/ {
        dsem_log_level warn;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /notice/ {
        dsem_log_level notice;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /info/ {
        dsem_log_level info;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /quiet/ {
        dsem_log_level info;
        error_log error.log notice;
        proxy_pass http://%%UPSTREAM%%;
    }
}
EOF_CONF

wait_for { $t->state->session_count == 1 };
my $holder = $node->begin('/error/?hang=1', Limit => 1);
wait_for { $up->now == 1 };

my @levels = qw(error warn notice info);
$node->get("/$_/", Limit => 0) for @levels;
# all wait at the same time; a limit of 0 would reject them
my @late = map { $node->begin("/$_/", Limit => 1, Timeout => '300ms') }
    @levels;
$_->wait for @late;
for my $level (@levels) {
    logged_once($_, $level) for qw(rejected timeout);
}
is($node->get('/quiet/', Limit => 0)->status, 503, 'quiet request rejected');
is(scalar $node->grep_log(qr{ dsem rejected: .*/quiet/}), 0,
    'no quiet line logged');

$up->release_all;
is($holder->wait->status, 200, 'holder served');

# refused because Redis is away

$node->clear_logs;
$redis->stop;
wait_for { $node->get('/error/', Limit => 1)->status == 503 };
wait_for { $node->grep_log(qr/ unavailable \(/) };
$node->clear_logs;
for my $level (@levels) {
    $node->get("/$level/", Limit => 1);
    logged_once('error', $level);
}
$redis->start;

done_testing();

sub logged_once {
    my ($reason, $level) = @_;
    my @lines = $node->grep_log(qr{ dsem $reason: .* "GET /$level/ });
    is(scalar @lines, 1, "one line of $reason");
    like($lines[0], qr/ \[$level\] /, "at level $level");
}
