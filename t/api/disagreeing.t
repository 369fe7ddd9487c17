#!/usr/bin/perl

# Nodes that are configured with different limits: the lowest is in force, and
# the figures and the metrics of every node name those that ask for another. Two
# configurations with one limit are two.

use JSON::PP qw(decode_json);
use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
$t->redis;
my $up = $t->upstream;

my %limit = (n1 => 3, n2 => 4, n3 => 5, n4 => 5);
my $conf = <<'EOF_CONF';
location / {
    dsem a limit=%%LIMIT%%;
    proxy_pass http://%%UPSTREAM%%;
}
location /agreed {
    dsem b limit=7;
    proxy_pass http://%%UPSTREAM%%;
}
location /own {
    dsem %%OWN%% limit=1;
    proxy_pass http://%%UPSTREAM%%;
}
location /dsem/ {
    dsem_api;
}
EOF_CONF
my @fleet = map { $t->node($_, $conf, LIMIT => $limit{$_}, OWN => "of-$_") }
    sort keys %limit;

sub disagreeing {
    my ($node, $name) = @_;
    my $seen = decode_json($node->get("/dsem/semaphores/$name")->body);
    my $semaphore = $seen->{semaphore};
    return join ' ', $semaphore->{limit} // '-',
        sort map { "$_->{node}=$_->{limit}" } @{ $semaphore->{disagreeing} };
}

for my $node (@fleet) {
    my $name = $node->name;
    is $node->get('/')->status, 200, "$name: request served";
    is $node->get('/agreed')->status, 200, "$name: another one served";
}
for my $node (@fleet) {
    my $name = $node->name;
    eventually { disagreeing($node, 'a') eq '3 n2=4 n3=5 n4=5' }
        "$name: nodes named" or diag disagreeing($node, 'a');
    is disagreeing($node, 'b'), 7, "$name: equal limits";
    eventually {
        my $text = $node->get('/dsem/metrics')->body;
        $text =~ /^dsem_disagreeing_nodes\{semaphore="a"\} 3$/m
            && $text =~ /^dsem_disagreeing_nodes\{semaphore="b"\} 0$/m;
    } "$name: nodes counted";
}

$t->done;
