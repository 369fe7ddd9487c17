#!/usr/bin/perl

# The requests of the noisy tenant take ten times as long as those of the
# others. It has no more permits in use for that: its requests cost ten times
# as much as soon as their hold times are known.

use lib 't/lib';
use Dsem::Test;

my $LIMIT = 6;

my $t = Dsem::Test->new;
my $redis = $t->redis;
# one for each semaphore
my %up = map { $_ => $t->upstream } qw(fair plain);

my %address = map { uc $_ => $up{$_}->address } keys %up;
my @fleet = $t->fleet(2, <<'EOF_CONF', %address);
worker_processes 1;
proxy_set_header X-Sem $arg_k;
location /fair {
    dsem shared limit=6 queue=100 timeout=20s fair=$arg_k;
    proxy_pass http://%%FAIR%%;
}
location /plain {
    dsem plain limit=6 queue=100 timeout=20s;
    proxy_pass http://%%PLAIN%%;
}
EOF_CONF

# 16 clients of each tenant, of both at one time
my %load;
for my $path (sort keys %up) {
    $load{$path} = [ map {
        my ($who, $time) = @$_;
        $t->load_start(clients => 16, seconds => 600,
            urls => [map { $_->url("/$path?k=$who&t=$time") } @fleet]);
    } ['slow', 240], ['quick', 24] ];
}

wait_for { $up{plain}->served > 40 && $up{fair}->served > 100 } 30,
    'hold times';
my $from = now;
$_->reset for values %up;
wait_for { $up{plain}->served > 60 && $up{fair}->served > 100 } 30,
    'many requests';
my ($fair, $plain) = map { used($_) } qw(fair plain);
$_->stop for map { @$_ } values %load;
for my $path (sort keys %up) {
    is_deeply [keys %{ $_->wait->{statuses} }], [200],
        "$path: all served" for @{ $load{$path} };
    is $up{$path}->peak, $LIMIT, "$path: limit reached, never exceeded";
}

cmp_ok $fair->{slow}, '<', 0.7 * $LIMIT, 'fair: slow tenant keeps its share';
cmp_ok $plain->{slow}, '>', 1.25 * $fair->{slow},
    'plain: slow tenant has more';
# a permit on its way is in use by none: the slower a worker, the fewer have both
my ($share, $without) = map { $_->{quick} / $_->{slow} } $fair, $plain;
cmp_ok $share, '>', 2.5 * $without, 'fair: quick tenant has its own';

$t->done;

# Permits that each tenant has in use, in the mean of the time until now.
sub used {
    my ($path) = @_;
    my $to = now;
    my %used = (slow => 0, quick => 0);
    for my $request ($up{$path}->log) {
        my ($start, $end) = @$request{qw(start end)};
        $end = $to if !defined $end || $end > $to;
        $used{ $request->{sem} } += $end - $start if $end > $start;
    }
    $used{$_} /= $to - $from for keys %used;
    note sprintf '%s: slow %.2f, quick %.2f', $path, @used{qw(slow quick)};
    return \%used;
}
