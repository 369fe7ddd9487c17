#!/usr/bin/perl

# Several dsem lines in one location, as Redis sees them: acquired in the order
# written, released in reverse, each once. When a later line rejects, the
# permits of the first lines are released at once, in a thousand rejections
# too.

use lib 't/lib';
use Dsem::Clock;
use Dsem::Test;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $up = $t->upstream;
my $clock = Dsem::Clock->new($t, monotonic => 1);

my ($one, $two) = $clock->fleet(2, <<'EOF_CONF');
%%GLOBALS%%
events { worker_connections 2048; }
http {
    %%HTTP%%
    dsem_redis %%REDIS%%;
    dsem_node %%NODE%%;
    dsem_lease 10m;
    proxy_set_header X-Sem $arg_sem;
    server {
        listen 127.0.0.1:%%PORT%%;
        location /a {
            dsem a limit=5 queue=100 timeout=30s;
            proxy_pass http://%%UPSTREAM%%;
        }
        location /b {
            dsem b limit=1;
            proxy_pass http://%%UPSTREAM%%;
        }
        location /ab {
            dsem a limit=5 queue=100 timeout=30s;
            dsem b limit=1;
            proxy_pass http://%%UPSTREAM%%;
        }
        location /ab_patient {
            dsem a limit=5 queue=100 timeout=30s;
            dsem b limit=1 queue=3 timeout=20ms;
            proxy_pass http://%%UPSTREAM%%;
        }
        location /xyz {
            dsem x limit=1;
            dsem y limit=2;
            dsem z limit=3 queue=1 timeout=30s;
            proxy_pass http://%%UPSTREAM%%;
        }
        location /z {
            dsem z limit=3 weight=3;
            proxy_pass http://%%UPSTREAM%%;
        }
    }
}
EOF_CONF

# in order, and in reverse; no check comes between

wait_for { $t->state->subscribed == 2 } 15, 'sessions';
$clock->stop;
my $seen = '';
my $monitor = $t->client->raw('127.0.0.1', $redis->port);
$monitor->send("MONITOR\r\n")->read_until(qr/\+OK\r\n/);
my $z = $one->begin('/z?hang=1');
eventually { syncs() eq 'z' } 'z taken';
my $xyz = $one->begin('/xyz?hang=1');
eventually { syncs() eq 'zxyz' } 'x, y, z asked in order';
is(join(', ', map { state($_) } qw(x y z)), '1 0, 1 0, 3 1',
    'x and y held, z queued');
$up->release_all;
is($z->wait->status, 200, 'z request served');
eventually { syncs() eq 'zxyzz' && $up->now == 1 }
    'z returned, request continues';
$up->release_all;
is($xyz->wait->status, 200, 'xyz request served');
eventually { syncs() eq 'zxyzzzyx' } 'released in reverse order';
is($one->begin('/xyz')->wait->status, 200, 'served again without wait');
eventually { syncs() eq 'zxyzzzyxxyzzyx' } 'each acquired and released once';
$monitor->close;
$clock->go;

# a thousand rejections by the second line

my $b = $one->begin('/b?hang=1');
wait_for { $up->now == 1 };
my $load = $t->load(urls => [map { $_->url('/ab') } $one, $two],
    clients => 10, requests => 1000);
is_deeply($load->{statuses}, { 503 => 1000 }, 'second line rejects all');
eventually { state('a') eq '0 0' } 'first permits returned', 3;
is($t->state->exists('a'), 0, 'first key removed');
$load = $t->load(urls => [map { $_->url('/ab_patient') } $one, $two],
    clients => 20, requests => 200);
is_deeply($load->{statuses}, { 503 => 200 },
    'all rejected, some after waiting');
eventually { state('a') eq '0 0' } 'first permits returned', 3;
is(state('b'), '1 0', 'no ticket waiting');
is($up->started, 4, 'no rejected request at backend');

# all five permits of the first line are free

my @a = map { $_->begin('/a?hang=1&sem=a') } ($one, $two) x 3;
eventually { $up->now('a') == 5 && state('a') eq '5 1' }
    'all first permits available';
$up->release_all;
wait_for { $up->started == 10 };
$up->release_all;
is($_->wait->status, 200, 'request served') for @a, $b;
eventually { state('a') . state('b') eq '0 00 0' } 'nothing left';
is($up->peak('a'), 5, 'limit of five kept');

done_testing();

# the semaphores in the order in which they were synced
sub syncs {
    $seen .= $monitor->read(0);
    my $key = $t->state->semaphore_key('');
    # one command or one for each, as they come
    return join '', map { /"\Q$key\E(\w)"/g }
        $seen =~ /"EVALSHA" ([^\r]*)/gi;
}

# permits held and tickets waiting
sub state {
    my ($name) = @_;
    return $t->state->counts($name);
}
