#!/usr/bin/perl

# The figures of a single name are those that were read last while Redis cannot
# be asked, and their age is said: not that of other names, which were read
# later. The name is one from variables of another node: only who asks for it
# by name reads it.

use JSON::PP qw(decode_json);
use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $up = $t->upstream;
my ($one, $two) = $t->fleet(2, <<'EOF_CONF');
worker_processes 1;
dsem_redis_timeout 500ms;
location /named {
    dsem "$arg_n" limit=4;
    proxy_pass http://%%UPSTREAM%%;
}
location /dsem/ {
    dsem_api;
}
EOF_CONF

sub figures { return decode_json($two->get("/dsem/semaphores$_[0]")->body) }

my $running = $one->begin('/named?hang=1&n=x');
wait_for { $up->now == 1 } 15, 'request running';
eventually {
    my $seen = figures('/x');
    $seen->{semaphore} && $seen->{semaphore}{in_use} == 1;
} 'read by name';
my $read = now;

# all names are read for some time more
wait_for { $read + 4 < now && figures('')->{fleet}{age} < 2 } 60, 'the others';
$redis->freeze;
my $age = now - $read;
my $last = figures('/x');
is $last->{semaphore}{in_use}, 1, 'the last figures';
cmp_ok $last->{fleet}{age}, '>', $age - 0.1, 'and their age';
$redis->thaw;

$up->release_all;
is $running->wait->status, 200, 'request served';

$t->done;
