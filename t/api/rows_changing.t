#!/usr/bin/perl

# More names than the metrics have series for: which names have one changes with
# what is busy. No counter of "~other" ever falls, as Prometheus would take that
# for a restart. A name that comes from there begins at 0, and goes on where it was
# if it had a series before. The rest of the API counts each request once.

use lib 't/lib';
use Cpanel::JSON::XS qw(decode_json);

use Dsem::Test;

my ($NAMES, $ROWS) = (2100, 2000);

my $t = Dsem::Test->new(lease => 60);
$t->redis;

my $node = $t->node('a', <<'EOF_CONF');
worker_processes 1;
dsem_zone_size 16m;
dsem_lease 60s;
location / {
    dsem "name$arg_n" limit=4 queue=1;
    dsem_reuse off;
    empty_gif;
}
location /hold {
    dsem "name$arg_n" limit=4 queue=1;
    dsem_hold;
}
location /dsem/ { dsem_api; }
location /full/ { dsem_api metrics=full; }
EOF_CONF

my $requests = 0;

sub requests {
    my ($name, $n) = @_;
    $node->get("/?n=$name") for 1 .. $n;
    $requests += $n;
}

# the lines that have these words
sub samples {
    my ($path, $words) = @_;
    return grep { index($_, $words) >= 0 } split /\n/, $node->get($path)->body;
}

# by name, of the requests that have passed at once
sub passed {
    return { map { /^dsem_requests_total\{semaphore="([^"]+)",result="passed"\} (\d+)/ }
        samples('/dsem/metrics', ',result="passed"') };
}

# those of the histograms, too
my %last;
sub never_falls {
    my ($name) = @_;
    my @fallen;
    for my $path (qw(/dsem/metrics /full/metrics)) {
        for (samples($path, '{semaphore="~other"')) {
            my ($sample, $value)
                = /^(\w+(?:_total|_bucket|_count|_sum)\{\S+) (\S+)/ or next;
            push @fallen, "$path: $sample: $value"
                if $value < ($last{"$path $sample"} // 0);
            $last{"$path $sample"} = $value;
        }
    }
    is_deeply \@fallen, [], "$name: none has fallen";
}

sub once {
    my ($name) = @_;
    my $json = decode_json($node->get('/dsem/semaphores')->body);
    my $sum = $json->{other}{passed};
    $sum += $_->{local}{passed} // 0 for @{ $json->{semaphores} };
    is $sum, $requests, "$name: each request is counted once";
}

# the name has a series, or none, in two answers that follow each other
sub shown {
    my ($name, $shown, $what) = @_;
    eventually { !exists passed()->{$name} == !$shown } $what;
}

my $load = $t->load(clients => 20, requests => $NAMES,
    request => sub { $node->url("/?n=$_[0]") });
is_deeply $load->{statuses}, { 200 => $NAMES }, 'all served';
$requests += $NAMES;

my $passed = passed();
my ($late) = grep { !exists $passed->{"name$_"} } 0 .. $NAMES - 1;
isnt $late, undef, 'a name without a series';
requests($late, 50);
never_falls('at first');
once('at first');

# it is busy, and another one has no series any more

my %first = map { $_ => 1 } grep { exists $passed->{"name$_"} }
    0 .. $NAMES - 1;
my $holder = $node->hold("/hold?n=$late");
$requests++;
shown("name$late", 1, 'busy: it has a series');
never_falls('busy');
once('busy');
my $begun = passed()->{"name$late"};
cmp_ok $begun, '<=', 1, 'what it had stays where it was';
requests($late, 5);
eventually { passed()->{"name$late"} == $begun + 5 } 'counted in its series';

$passed = passed();
my ($left) = grep { $first{$_} && !exists $passed->{"name$_"} }
    0 .. $NAMES - 1;
isnt $left, undef, 'another one has none any more';

# idle again

$holder->close;
shown("name$late", 0, 'idle: it has none');
requests($late, 3);
never_falls('idle');
once('idle');

# and it goes on; so does the other one

$holder = $node->hold("/hold?n=$late");
my $other = $node->hold("/hold?n=$left");
$requests += 2;
shown("name$late", 1, 'busy again: it has a series');
shown("name$left", 1, 'and so has the other one');
$passed = passed();
is $passed->{"name$late"}, $begun + 5 + 3 + 1, 'it goes on';
is $passed->{"name$left"}, 2, 'and so does the other one';
never_falls('busy again');
once('busy again');
my $hour = 0;
my $json = decode_json($node->get('/dsem/semaphores')->body);
$hour += $_->{last_hour}{passed} // 0
    for $json->{other}, map { $_->{local} // () } @{ $json->{semaphores} };
is $hour, $requests, 'and all in the last hour';

$_->close for $holder, $other;
$t->done;
