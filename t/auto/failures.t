#!/usr/bin/perl

# What a sample tells of a request: a status of 500 to 599, a timeout and a
# refused connection are errors, a status of 404 is none. Of several tries the
# last one decides, and their times are added. After a redirect to another
# location the last backend counts. A response that breaks off is an error too,
# whatever its status. A client that leaves early tells nothing.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Dsem::Test;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $up = $t->upstream;

# how a response ends in its body
my %broken = (
    reset => 'stream=2&every=30&end=rst',
    closed => 'stream=2&every=30&end=fin',
    silent => 'stream=2&every=5000',
);
my @broken;
for my $how (sort keys %broken) {
    for my $buffering (qw(on off)) {
        push @broken, map { [$how, $buffering, $_] } qw(response log);
    }
}
my $locations = join '', map { my ($how, $buffering, $release) = @$_; <<"EOF" }
        location /$how-$buffering-$release {
            dsem $how-$buffering-$release limit=auto;
            dsem_release $release;
            proxy_buffering $buffering;
            proxy_read_timeout 200ms;
            proxy_pass http://%%UPSTREAM%%;
        }
EOF
    @broken;

my $node = $t->node('a', <<'EOF_CONF' =~ s/ *BROKEN\n/$locations/r,
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    dsem_redis %%REDIS%%;
    dsem_node %%NODE%%;
    upstream tries {
        server 127.0.0.1:%%PORT2%% max_fails=0;
        server %%UPSTREAM%% backup;
    }
    server {
        listen 127.0.0.1:%%PORT%%;
        location /status {
            dsem status limit=auto;
            proxy_pass http://%%UPSTREAM%%;
        }
        location /timeout {
            dsem timeout limit=auto;
            proxy_read_timeout 50ms;
            proxy_pass http://%%UPSTREAM%%;
        }
        location /refused {
            dsem refused limit=auto;
            set $to %%UPSTREAM%%;
            if ($arg_dead) {
                set $to %%DEAD%%;
            }
            proxy_pass http://$to;
        }
        location /tries {
            dsem tries limit=auto;
            proxy_next_upstream http_503;
            proxy_pass http://tries;
        }
        location /redirected {
            dsem redirected limit=auto;
            proxy_intercept_errors on;
            error_page 503 = /other;
            proxy_pass http://%%UPSTREAM%%;
        }
        location /other {
            dsem redirected limit=auto;
            proxy_pass http://%%UPSTREAM%%/?t=1;
        }
        BROKEN
        location /left {
            dsem left limit=auto;
            proxy_pass http://%%UPSTREAM%%;
        }
        location /left_later {
            dsem left_later limit=auto;
            proxy_pass http://%%UPSTREAM%%;
        }
    }
    server {
        listen 127.0.0.1:%%PORT2%%;
        location = /tries {
            proxy_pass http://%%UPSTREAM%%/?t=200&status=503&args=;
        }
    }
}
EOF_CONF
    DEAD => '127.0.0.1:' . $t->free_port);

# Requests, errors, and the sum of the times in ms, that are to be judged.
sub figures {
    my ($name) = @_;
    my @field = split ' ', $redis->cmd('HGET', $t->state->auto_key($name), '.')
        // '';
    return @field ? (@field[17, 19], $field[18] / 1000) : (0, 0, 0);
}

# The figures when all is sent: a worker sends a sample every 100 ms.
sub settled {
    my ($name) = @_;
    my ($since, @last) = (now, -1);
    wait_for {
        my @figures = figures($name);
        ($since, @last) = (now, @figures) if "@figures" ne "@last";
        now - $since > 0.3;
    } 15, "$name: all samples";
    return @last;
}

# The first sample of a name is not judged, nor are eight requests.
sub begin_at {
    my ($name, $arguments) = @_;
    wait_for { $node->get("/$name?$arguments"); (figures($name))[0] } 15,
        "$name: samples";
    return settled($name);
}

# Sends requests with these arguments one after the other. Tests how many
# requests and errors they have added, returns their times.
sub is_added {
    my ($name, $arguments, $expected, $what) = @_;
    my @before = begin_at($name, 't=1');
    $node->get("/$name?$_") for @$arguments;
    my @after = settled($name);
    my @added = map { $after[$_] - $before[$_] } 0 .. 2;
    is "$added[0] $added[1]", $expected, $what;
    return $added[2];
}

is_added('status', ['status=500', 'status=599', 'status=404', 'status=418'],
    '4 2', '500 to 599 are errors');
is_added('timeout', ['hang=1', 'hang=1'], '2 2', 'timeouts are errors');
is_added('refused', ['dead=1', 'dead=1'], '2 2', 'so are refused connections');

cmp_ok is_added('tries', ['t=100'], '1 0', 'the last try decides'), '>=', 290,
    'the times of all tries';
cmp_ok is_added('redirected', ['t=300&status=503'], '1 0',
    'the backend after a redirect decides'), '<', 250, 'its time alone';

for (@broken) {
    my ($how, $buffering, $release) = @$_;
    my $name = join '-', @$_;
    is is_added($name, [($broken{$how}) x 2], '2 2', "$name: errors"), 0,
        'their times do not count';
    my @access = grep { $_->{request_uri} eq "/$name?$broken{$how}" }
        $node->access_log;
    is "@{[ map { $_->{status} } @access ]}", '200 200', 'after the header';
}

# shorter than usual

my @before = begin_at('left', 't=500');
my $left = $node->begin('/left?t=500');
wait_for { $up->now == 1 } 15, 'a request';
$left->abort;
wait_for { $up->now == 0 } 15, 'its end';
is $node->get('/left?t=1')->status, 200, 'one that stays';
is +(settled('left'))[0] - $before[0], 1, 'none of the one that left';

# in the body, longer than usual

@before = begin_at('left_later', 't=1');
$left = $node->begin('/left_later?stream=100&every=10');
wait_for { $up->now == 1 } 15, 'a request';
my $begun = now;
wait_for { now > $begun + 0.3 } 15, 'much of the response';
$left->abort;
wait_for { $up->now == 0 } 15, 'its end';
my @after = settled('left_later');
is $after[0] - $before[0], 1, 'counted';
is $after[1] - $before[1], 0, 'not as an error';

$t->done;
