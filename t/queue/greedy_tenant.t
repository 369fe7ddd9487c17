#!/usr/bin/perl

# A tenant with excess load gets the permits of its own line and no more.
# Behind a limit per tenant, other tenants are served after short waits.
# Without that limit they are rejected.

use List::Util qw(max sum0);
use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $up = $t->upstream(service => 0.020);

my ($one, $two) = $t->fleet(2, <<'EOF_CONF');
worker_connections 1024;
dsem_log_level info;
proxy_set_header X-Sem $arg_x;
server {
    listen 127.0.0.1:%%PORT%%;
    error_log error.log warn;
    location /by_tenant {
        dsem "tenant:$arg_x" limit=2 queue=5 timeout=60s;
        dsem api limit=4 queue=50 timeout=60s;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /for_all {
        dsem api limit=4 queue=50 timeout=60s;
        proxy_pass http://%%UPSTREAM%%;
    }
}
EOF_CONF

# 80 greedy clients of one tenant, and one of each of three others. After that
# @last hold all permits at once: the peak is the cap where it was not exceeded.
sub crowd {
    my ($path, @last) = @_;
    $up->reset;
    my @greedy = map {
        $t->load_start(urls => [$_->url("$path?x=greedy")], clients => 40,
            seconds => 600, keepalive => 1);
    } $one, $two;
    wait_for { $up->served > 20 };
    my $polite = $t->load(urls => [
        map { ($one->url("$path?x=$_"), $two->url("$path?x=$_")) } qw(a b c)
    ], clients => 3, requests => 90, keepalive => 1, records => 1);
    # the others were served 90 times at most
    wait_for { $up->served > 20 + 90 + 60 } 60, 'greedy tenant served';
    my @took = map { took($_->{start}, $_->{start} + $_->{latency}) }
        grep { $_->{status} eq '200' } @{ $polite->{records} };
    @$polite{qw(mean max)} = (sum0(@took) / (@took || 1), max(0, @took));
    my %greedy;
    for my $load (map { $_->stop->wait } @greedy) {
        $greedy{$_} += $load->{statuses}{$_} for keys %{ $load->{statuses} };
    }
    my @held = map { $one->begin("$path?x=$_&hang=1") } @last;
    wait_for { $up->now == @last } 15, 'all permits at the backend';
    $up->release_all;
    $_->wait for @held;
    note sprintf '%s: greedy %s; polite %s, mean %.3f s, max %.3f s', $path,
        join(' ', map { "$_: $greedy{$_}" } sort keys %greedy),
        join(' ', map { "$_: $polite->{statuses}{$_}" }
            sort keys %{ $polite->{statuses} }),
        @$polite{qw(mean max)};
    return (\%greedy, $polite);
}

my ($greedy, $polite) = crowd('/by_tenant', qw(greedy greedy a b));
is_deeply $polite->{statuses}, { 200 => 90 }, 'other tenants served';
cmp_ok $polite->{mean}, '<', 0.5, 'waits stay short';
cmp_ok $polite->{max}, '<', 4, 'longest wait bounded';
is $up->peak, 4, 'cap reached';
is $up->peak('greedy'), 2, "tenant cap reached";
cmp_ok $greedy->{200}, '>', 50, 'greedy tenant served';
cmp_ok $greedy->{503}, '>', $greedy->{200}, 'greedy tenant mostly rejected';
is join(' ', sort keys %$greedy), '200 503', 'no other statuses';

($greedy, $polite) = crowd('/for_all', ('greedy') x 4);
cmp_ok $polite->{statuses}{503}, '>', 45, 'uncapped: others rejected';
is $up->peak, 4, 'uncapped: cap reached';
is $up->peak('greedy'), 4, 'uncapped: one tenant only';

done_testing();
