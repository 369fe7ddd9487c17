#!/usr/bin/perl

# GET /metrics has histograms of literal names; those of names from variables
# are added up, as of the other names, unless the location has "metrics=full".
# A dry run is marked, in the metrics and in JSON, until requests are refused
# again; and a name at rest keeps the limit that was last in force.

use lib 't/lib';
use Cpanel::JSON::XS qw(decode_json);

use Dsem::Pages;
use Dsem::Test;

my $t = Dsem::Test->new;
my $redis = $t->redis;

my $conf = <<'EOF_CONF';
location / {
    dsem "tenant:$arg_n" limit=4 queue=1;
    empty_gif;
}
location /literal {
    dsem reports limit=$arg_limit;
    empty_gif;
}
location /dry {
    dsem dry limit=7;
    dsem_dry_run on;
    empty_gif;
}
location /dsem/ { dsem_api; }
location /full/ { dsem_api metrics=full; }
EOF_CONF
my $node = $t->node('a', $conf);

# the last permits of a variable name go back
is $node->get("/?n=$_")->status, 200, "tenant $_" for 1 .. 3;
is $node->get('/literal?limit=3')->status, 200, 'literal name';
is $node->get('/dry')->status, 200, 'dry run';

my ($metrics, $full) = map { $node->get("/$_/metrics")->body } qw(dsem full);

sub histograms {
    my ($text) = @_;
    my %count = $text =~ /^dsem_hold_seconds_count\{semaphore="(.*?)"\} (\d+)$/mg;
    return \%count;
}
is_deeply histograms($metrics), { reports => 1, dry => 0, '~other' => 3 },
    'of literal names, and the sum of all others';
is_deeply histograms($full), { reports => 1, dry => 0, '~other' => 0,
    map { ("tenant:$_" => 1) } 1 .. 3 }, 'of all names';

# what docs/api.md and docs/sizing.md say of their number

sub series {
    my ($text, $name) = @_;
    return scalar(my @lines = $text =~ /^dsem_\w+\{semaphore="\Q$name\E"/mg);
}
my $number = qr/(\d+) series for a literal name, (\d+) for one from variables/;
my ($literal, $variable) = section('Metrics') =~ $number;
is_deeply [page('docs/sizing.md') =~ $number], [$literal, $variable],
    'equal numbers';
is series($metrics, 'dry'), $literal, 'series of a literal name';
is series($full, 'tenant:1') - series($metrics, 'tenant:1'),
    $literal - $variable, 'fewer of a name from variables';

# a dry run

sub row {
    my ($name) = @_;
    return decode_json($node->get("/dsem/semaphores/$name")->body)->{semaphore};
}
my %dry = $metrics =~ /^dsem_dry_run\{semaphore="(.*?)"\} (\d)$/mg;
is_deeply \%dry, { reports => 0, dry => 1, '~other' => 0,
    map { ("tenant:$_" => 0) } 1 .. 3 }, 'a dry run is marked';
ok row('dry')->{local}{dry_run}, 'in JSON';
ok !row('reports')->{local}{dry_run}, 'and only there';

# limits

is row('dry')->{local}{configured}, 7, 'limit of the configuration';
is_deeply [ @{ row('reports')->{local} }{qw(configured limit)} ], [undef, 3],
    'a limit from a variable';
wait_for { $t->state->held('reports') == 0 } 15, 'at rest';
wait_for { !defined row('reports')->{limit} } 15, 'forgotten by Redis';
is row('reports')->{local}{limit}, 3, 'but not by the node';

$t->done;
