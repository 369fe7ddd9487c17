#!/usr/bin/perl

# Malformed orders of several names: a node logs each once, whatever checksums
# the names have. It remembers 64 of them; while there are more it logs one a
# minute.

use lib 't/lib';
use Dsem::Test;
use Dsem::Clock;
use Compress::Zlib qw(crc32);

my $PLACES = 64;

# the first two, and the next two, have one checksum modulo the places

my (%of, @twins);
for my $n (1 .. 200) {
    push @{ $of{ crc32("tenant:$n") % $PLACES } }, $n;
}
for my $same (sort { $a->[0] <=> $b->[0] } values %of) {
    push @twins, @$same[0, 1] if @$same > 1 && @twins < 4;
}
my %twin = map { $_ => 1 } @twins;
my @names = (@twins, (grep { !$twin{$_} } 1 .. 200)[0 .. $PLACES + 1]);

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $up = $t->upstream;

my $clock = Dsem::Clock->new($t, monotonic => 1);
my $node = $clock->node('a', <<'EOF_CONF');
worker_processes 1;
dsem_reuse off;
location / {
    dsem tenant:$arg_t limit=20;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

$t->state->order("tenant:$_", '5;') for @names;

ask($_) for @twins, @twins, $twins[0];
logged($names[4]);
is lines($_), 1, "tenant:$_ logged once" for @twins;

# orders that the log has are no lines: another name need not wait a second
$clock->step(1);
$clock->stop;
is $node->get("/?t=$_")->status, 200, "tenant:$_ served" for @twins[0, 1],
    $names[5];
eventually { lines($names[5]) == 1 } 'logged beside two with one checksum';
$clock->go;

# changed, and back
$t->state->order("tenant:$twins[0]", '6;');
logged($twins[0], 2);
$t->state->order("tenant:$twins[0]", '5;');
logged($twins[0], 3);

# all places are used
logged($_) for @names[5 .. $PLACES - 1];
my @more = @names[$PLACES .. $PLACES + 2];
my $before = lines();
for (1 .. 2) {
    ask($_) for @more;
}
$clock->step(60);
ask($more[0]);
cmp_ok lines() - $before, '<=', 2, 'one a minute beyond the places';

# but each sooner or later
for my $name (@more) {
    $clock->step(60);
    logged($name);
}
ok 1, 'each is logged';

$t->done;

# Lines about the order of a name, or of all.
sub lines {
    my ($name) = @_;
    $name //= '\d+';
    return scalar(() = $node->grep_log(qr/order ".*" of "tenant:$name" ignor/));
}

# A request: a worker logs one order a second.
sub ask {
    my ($name) = @_;
    $clock->step(1);
    is $node->get("/?t=$name")->status, 200, "tenant:$name served";
    wait_for { !$t->state->held("tenant:$name") } 15, 'released';
    return;
}

# Also what came before it is.
sub logged {
    my ($name, $n) = @_;
    return wait_for {
        $clock->step(1);
        $node->get("/?t=$name");
        lines($name) == ($n // 1);
    } 15, "order of tenant:$name logged";
}
