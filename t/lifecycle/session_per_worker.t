#!/usr/bin/perl

# Each worker has one session in Redis, and so does a single process that is
# master and worker in one. Other processes have none, nor do workers without a
# limited location.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new(lease => 2);
my $redis = $t->redis;
my $up = $t->upstream;

my $conf = <<'EOF_CONF';
%%GLOBALS%%
worker_processes 3;
events { }
http {
    %%HTTP%%
    add_header X-Worker $pid;
    dsem_redis %%REDIS%%;
    dsem_node %%NODE%%;
    dsem_lease 2s;
    proxy_cache_path %%DIR%%/temp/cache keys_zone=cache:1m;
    server {
        listen 127.0.0.1:%%PORT%%;
        location /limited {
            dsem api limit=2;
            proxy_pass http://%%UPSTREAM%%;
        }
        location /free {
            proxy_pass http://%%UPSTREAM%%;
        }
    }
}
EOF_CONF

sub sessions {
    my ($node) = @_;
    my @all = grep { /^$node:/ } $t->state->sessions;
    return scalar @all;
}

# connections other than those of the test
sub connections {
    my @all = grep { / addr=127\.0\.0\.1/ } split /\n/,
        $redis->cmd(qw(CLIENT LIST));
    return scalar @all;
}

my $node = $t->node('workers', $conf);
eventually { sessions('workers') == 3 } 'one session per worker';
eventually { $node->cache_processes == 2 } 'cache processes running';
eventually { connections() == 6 } 'cache processes not connected';
my $names = join ' ', sort map { (split /:/)[1] }
    $t->state->sessions;
is $names, '0 1 2', 'session named for worker';

$node->reload;
eventually { sessions('workers') == 3 && connections() == 6 }
    'reload: only live sessions';
$node->quit;
eventually { sessions('workers') == 0 } 'quit: no session';
eventually { connections() == 0 } 'quit: connections gone';

my $without = $t->node('without',
    $conf =~ s/ dsem api.*?;//r =~ s/listen .*\K;/ reuseport;/r);
my %worker;
wait_for {
    my $free = $without->get('/free?t=1');
    $worker{ $free->header('X-Worker') } = 1 if $free->status == 200;
    keys %worker == 3;
} 15, 'a request in each worker';
is connections(), 0, 'nothing limited: no connection';

my $single_conf = $conf =~ s/worker_processes 3/master_process off/r;
my $single = $t->node('single', $single_conf);
eventually { sessions('single') == 1 } 'single process: one session';
my @running = map { $single->begin('/limited?hang=1') } 1, 2;
eventually { $up->now == 2 } 'single process: granted';
is $single->get('/limited')->status, 503, 'single process: limited';

# its name and epoch
my $session = $t->state->epochs;

# a new configuration is read; nginx accepts no connection afterwards, but
# open connections continue

$single->signal('HUP');
eventually { $single->grep_log(qr/using the "epoll"/) >= 2 }
    'single process: reload';
my $beats = $redis->calls->{publish} // 0;
eventually { ($redis->calls->{publish} // 0) > $beats + 1 }
    'single process: still running';
is_deeply $t->state->epochs, $session, 'single process: same session';
$up->release_all;
is $_->wait->status, 200, 'single process: request served' for @running;
eventually { !$t->state->exists('api') } 'single process: permits returned';
is $up->peak, 2, 'single process: never exceeded';
$single->quit;
eventually { sessions('single') == 0 } 'single process: gone';

$t->done;
