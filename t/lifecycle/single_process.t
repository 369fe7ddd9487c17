#!/usr/bin/perl

# nginx as a single process in the foreground, as for debugging: the limit
# holds, and the session ends with the process. HUP reads the configuration
# anew without a new process: nginx itself then has only those connections that
# become free, with or without the module. The session continues.

use lib 't/lib';
use Cpanel::JSON::XS qw(decode_json);
use List::Util qw(max);
use Dsem::Test;

my $t = Dsem::Test->new(lease => 2);
my $redis = $t->redis;
my $up = $t->upstream(service => 0.020);

my $conf = <<'EOF_CONF';
daemon off;
master_process off;
%%GLOBALS%%
events { }
http {
    %%HTTP%%
    server {
        listen 127.0.0.1:%%PORT%%;
        location /single {
            proxy_pass http://%%UPSTREAM%%;
        }
    }
}
EOF_CONF
my $limited = $conf
    =~ s/(server \{)/dsem_redis %%REDIS%%; dsem_node %%NODE%%;\n    dsem_lease 2s; $1/r
    =~ s/(proxy_pass)/dsem api limit=3 queue=100 timeout=10s;\n$1/r
    =~ s{(location)}{location /dsem/ { dsem_api; }\n$1}r;

sub sessions { $t->state->session_count }

# name => epoch, without the session of before, which is barred for a while
sub session {
    my $of = $t->state->epochs;
    return { map { $_ => $of->{$_} } grep { defined $of->{$_} } keys %$of };
}

my $node = $t->node('single', $limited);
my $result = $t->load(urls => [ $node->url('/single') ], clients => 20,
    requests => 150);
is_deeply $result->{statuses}, { 200 => 150 }, 'all requests served';
is $up->peak, 3, 'limit reached, never exceeded';
is sessions(), 1, 'one session';
my $counted = decode_json($node->get('/dsem/semaphores')->body);
my $local = $counted->{semaphores}[0]{local};
is $local->{passed} + $local->{queued}, 150, 'all requests counted';
is $local->{in_use}, 0, 'no permit in use';
$node->quit;
eventually { sessions() == 0 } 'session removed on exit';

# what HUP does, with requests in flight

$node->start;
eventually { sessions() == 1 } 'process restarted';
my $plain = $t->node('plain', $conf);
my %running = map { $_->name => $_->begin('/single?hang=1') }
    $plain, $node;
eventually { $up->now == 2 } 'one request in each';
my $session = session();
is scalar(keys %$session), 1, 'one session again';
for my $one ($plain, $node) {
    $one->signal('HUP');
    eventually { $one->grep_log(qr/\] \d+#\d+: reconfiguring/) }
        $one->name . ': configuration read anew';
}
$up->release_all;
my %after;
my %new = map { $_->name => $_->begin('/single?t=1') } $plain, $node;
for my $name (qw(plain single)) {
    my $asked = now;
    $after{$name} = join ', ', map {
        eval { $_->wait(max(0.1, 2 - took($asked))); $_->status } || 'silence'
    } $running{$name}, $new{$name};
}
is $after{single}, $after{plain}, 'same as without module';
note "one that ran, and a new one: $after{plain}";
my $beats = $redis->calls->{publish} // 0;
eventually { ($redis->calls->{publish} // 0) >= $beats + 2 }
    'heartbeat continues';
is_deeply session(), $session, 'same session';

$t->expect_log(qr/worker_connections are not enough/);
$redis->client_kill;
eventually { $node->grep_log(qr/available again/) } 'reconnected';
# it has few connections left, of which the new ones to Redis take some
eventually { $node->get('/single?t=1')->status == 200 } 'request served';
ok $_->alive, $_->name . ': there' for $plain, $node;

for my $one ($plain, $node) {
    $one->stop;
    ok !$one->alive, $one->name . ': ends';
}

$t->done;
