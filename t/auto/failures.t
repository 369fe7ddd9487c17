#!/usr/bin/perl

# What a sample tells of a request: a status of 500 to 599, a timeout and a
# refused connection are errors, a status of 404 is none. Of several tries the
# last one decides, and their times are added. After a redirect to another
# location the last backend counts. A response that breaks off is an error too,
# whatever its status. A client that leaves early tells nothing.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $up = $t->upstream;

# how a response ends in its body
my %broken = (
    reset => 'stream=2&every=700&end=rst',
    closed => 'stream=2&every=700&end=fin',
    garbage => 'stream=2&every=700&end=garbage',
    silent => 'stream=2&every=60000',
);
my @broken;
for my $how (sort keys %broken) {
    for my $buffering (qw(on off)) {
        push @broken, map { "$how-$buffering-$_" } qw(response log);
    }
}

my $locations = join '', map {
    my ($how, $buffering, $release) = split /-/;
    my $timeout = $how eq 'silent' ? '1s' : '60s';
    <<"EOF";
        location /$_ {
            dsem $_ limit=auto;
            dsem_release $release;
            proxy_buffering $buffering;
            proxy_read_timeout $timeout;
            proxy_pass http://%%UPSTREAM%%;
        }
EOF
} @broken;

my $node = $t->node('a', <<'EOF_CONF' =~ s/ *BROKEN\n/$locations/r,
worker_processes 1;
proxy_set_header X-Sem $dsem_name;
upstream tries {
    server 127.0.0.1:%%PORT2%% max_fails=0;
    server %%UPSTREAM%% backup;
}
server {
    listen 127.0.0.1:%%PORT%%;
    location /first {
        dsem first limit=auto;
        proxy_pass http://%%UPSTREAM%%;
    }
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
        proxy_pass http://%%DEAD%%;
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
EOF_CONF
    DEAD => '127.0.0.1:' . $t->free_port);

# the first sample loads its script
is $node->get('/first')->status, 200, 'a request';
eventually { $redis->cmd('EXISTS', $t->state->auto_key('first')) }
    'its sample';

my $monitor = $t->client->raw('127.0.0.1', $redis->port);
$monitor->send("MONITOR\r\n")->read_until(qr/OK/);
my ($seen, %told) = ('');

# Sums up the samples of all names: requests, errors, times in ms.
sub told {
    my ($name) = @_;
    $seen .= $monitor->read(0.02);
    while ($seen =~ s/^.*?"(\S+)" "(\d+) (\d+) (\d+)(?: \d+){7}"\r\n//s) {
        my ($told, @sample) = ($told{$1} //= [0, 0, 0], $2, $4, $3 / 1000);
        $told->[$_] += $sample[$_] for 0 .. 2;
    }
    return @{ $told{$name} // [0, 0, 0] };
}

# The requests of each name, and how many requests and errors they are.
my @cases = (
    ['status', ['status=500', 'status=599', 'status=404', 'status=418'],
        '4 2', '500 to 599 are errors'],
    ['timeout', ['hang=1', 'hang=1'], '2 2', 'timeouts are errors'],
    ['refused', ['', ''], '2 2', 'so are refused connections'],
    ['tries', ['t=100'], '1 0', 'the last try decides'],
    ['redirected', ['t=1500&status=503'], '1 0',
        'the backend after a redirect decides'],
    map({ [$_, [($broken{s/-.*//r}) x 2], '2 2', "$_: errors"] } @broken),
    ['left', ['t=1500'], '1 0', 'a request of usual length'],
    ['left_later', ['t=1'], '1 0', 'a short one'],
);
my %requests = map { my ($name, $arguments) = @$_;
    $name => [ map { $node->begin("/$name?$_") } @$arguments ] } @cases;
$_->wait for map { @$_ } values %requests;

# Waits until these requests are in samples, and for others that must not be: a
# worker sends a sample every 100 ms.
sub settle {
    my (%expected) = @_;
    wait_for { !grep { (told($_))[0] < $expected{$_} } keys %expected } 15,
        'all samples';
    my $from = now;
    wait_for { told('first'); now - $from > 0.3 } 15, 'no other ones';
}

settle(map { $_->[0] => $_->[2] =~ s/ .*//r } @cases);
for (@cases) {
    my ($name, undef, $expected, $what) = @$_;
    my ($count, $errors) = told($name);
    is "$count $errors", $expected, $what;
}
cmp_ok +(told('tries'))[2], '>=', 290, 'the times of all tries';
cmp_ok +(told('redirected'))[2], '<', 1000,
    'the time of the backend after a redirect alone';
for my $name (@broken) {
    is +(told($name))[2], 0, "$name: their times do not count";
    is "@{[ map { $node->logged($_)->{status} } @{ $requests{$name} } ]}",
        '200 200', 'after the header';
}

# shorter than usual

my $left = $node->begin('/left?hang=1');
wait_for { $up->now('left') == 1 } 15, 'a request';
$left->abort;
wait_for { $up->now('left') == 0 } 15, 'its end';
is $node->get('/left?t=1')->status, 200, 'one that stays';

# in the body, longer than usual

$left = $node->begin('/left_later?stream=1000&every=10');
wait_for { $up->now('left_later') == 1 } 15, 'a request';
my $begun = now;
wait_for { now > $begun + 0.3 } 15, 'much of the response';
$left->abort;
wait_for { $up->now('left_later') == 0 } 15, 'its end';

settle(left => 2, left_later => 2);
is +(told('left'))[0], 2, 'none of the one that left';
is +(told('left_later'))[0], 2, 'counted';
is +(told('left_later'))[1], 0, 'not as an error';

$t->done;
