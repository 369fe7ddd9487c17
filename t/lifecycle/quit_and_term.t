#!/usr/bin/perl

# A node that leaves in order. QUIT: who runs and who waits is served first.
# TERM: the requests end, and so do the sessions, at once.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Dsem::Test;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $up = $t->upstream;

my ($leaves, $stays) = $t->fleet(2, <<'EOF_CONF');
%%GLOBALS%%
worker_processes 2;
events { }
http {
    %%HTTP%%
    dsem_redis %%REDIS%%;
    dsem_node %%NODE%%;
    server {
        listen 127.0.0.1:%%PORT%%;
        location /left {
            dsem api limit=2 queue=10 timeout=10s;
            proxy_pass http://%%UPSTREAM%%;
        }
    }
}
EOF_CONF

sub waiting { $redis->cmd('HGET', 'dsem:{0}:s:api', 'waiting') // 0 }

sub sessions {
    my ($node) = @_;
    return grep { /^$node:/ }
        @{ $redis->cmd('ZRANGE', 'dsem:{0}:sessions', 0, -1) };
}

sub two_running_two_waiting {
    my @requests = map { $leaves->begin('/left?hang=1') } 1, 2;
    eventually { $up->now == 2 } 'two are running';
    push @requests, map { $leaves->begin('/left?t=1') } 1, 2;
    eventually { waiting() == 2 } 'two are waiting';
    return @requests;
}

# QUIT

my @requests = two_running_two_waiting();
my @old = $leaves->workers;
$leaves->signal('QUIT');
eventually { !$leaves->workers } 'on the way out';
ok !$_->done, 'still there' for @requests;
is waiting(), 2, 'still waiting';
is $up->now, 2, 'still running';
my $after = $stays->begin('/left?t=1');
eventually { waiting() == 3 } 'another node waits behind';

$up->release_all;
is $_->wait->status, 200, 'served on the way out' for @requests;
is $after->wait->status, 200, 'served in its turn';
eventually { !$leaves->alive } 'gone';
is scalar(sessions('n1')), 0, 'sessions gone';
eventually { $redis->cmd('EXISTS', 'dsem:{0}:s:api') == 0 } 'permits back';
is $up->peak, 2, 'limit reached, never exceeded';

# TERM

$leaves->start;
eventually { sessions('n1') == 2 } 'back';
@requests = two_running_two_waiting();
$after = $stays->begin('/left?t=1');
eventually { waiting() == 3 } 'another node waits';
my $stopped = now;
$leaves->signal('TERM');
eventually { sessions('n1') == 0 } 'sessions gone', 3;
eventually { !$leaves->alive } 'gone at once', 3;
cmp_ok now - $stopped, '<', 3, 'long before the lease ends';
is $after->wait->status, 200, 'permits are free';
cmp_ok now - $stopped, '<', 4, 'as soon';
eventually { $redis->cmd('EXISTS', 'dsem:{0}:s:api') == 0 } 'nothing held', 3;
is $up->peak, 2, 'limit never exceeded';

$t->done;
