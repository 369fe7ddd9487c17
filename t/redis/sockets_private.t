#!/usr/bin/perl

# A program that a worker starts, as lua can, inherits no connection to Redis:
# all of them are closed on exec.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $up = $t->upstream;
my $node = $t->node('a', <<'EOF_CONF');
worker_processes 1;
location / { dsem api limit=2; proxy_pass http://%%UPSTREAM%%; }
EOF_CONF

my $CLOEXEC = 02000000;

sub slurp { open my $f, '<', $_[0] or return ''; local $/; return <$f> }

# the flags of each connection of this process to Redis
sub flags {
    my ($pid) = @_;
    my $port = sprintf ':%04X', (split /:/, $redis->address)[1];
    my %redis = map { $_->[9] => 1 } grep { $_->[2] =~ /\Q$port\E$/ }
        map { [split] } split /\n/, slurp('/proc/net/tcp');
    return map {
        my ($inode) = (readlink($_) // '') =~ /^socket:\[(\d+)\]/;
        my ($flags) = slurp(s/fd/fdinfo/r) =~ /^flags:\s*(\d+)/m;
        $inode && $redis{$inode} ? oct $flags : ();
    } glob "/proc/$pid/fd/*";
}

is $node->get('/?t=1')->status, 200, 'request served';
my ($worker) = $node->workers;
my @flags;
eventually { (@flags = flags($worker)) == 2 } 'connected twice';
is scalar(grep { !($_ & $CLOEXEC) } @flags), 0, 'closed on exec';

$t->done;
