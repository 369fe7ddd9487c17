#!/usr/bin/perl

# DSEM_LATE: the workers that it names know the replies of Redis late, others do
# not.

use lib 't/lib';
use Dsem::Test;

plan(skip_all => 'the module is linked in')
    if !Dsem::Node::Conf::load_module();

my $t = Dsem::Test->new;
$t->redis;
my $up = $t->upstream;

# its worker has the number 0; one that stands for a minute serves no request
my %late = map { $_ => took_of($_) } qw(odd:60000 even:100 all:100);
cmp_ok $late{$_}, '>=', 0.1, "$_: late" for qw(even:100 all:100);
is scalar(grep { $_ } values %late), 3, 'all served';

$t->done;

sub took_of {
    my ($which) = @_;
    local $ENV{DSEM_LATE} = $which;
    my $node = $t->node($which =~ tr/:/-/r, <<'EOF_CONF');
location / {
    dsem api limit=1;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF
    wait_for { $node->grep_log(qr/connected to redis/) } 15, 'a session';
    my $begun = now;
    my $status = $node->get('/')->status;
    my $took = now - $begun;
    $node->quit;
    return $status == 200 && $took;
}
