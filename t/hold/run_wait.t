#!/usr/bin/perl

# bin/dsem-run: the time to wait is that for all nginx together. The next one is
# asked to wait for what is left of it, or not at all.

use lib 't/lib';
use Dsem::Program qw(shells);
use Dsem::Test;

my $t = Dsem::Test->new;
$t->redis;
my $up = $t->upstream;
my $node = $t->node('a', <<'EOF_CONF');
log_format prefer "$http_prefer";
server {
    listen 127.0.0.1:%%PORT%%;
    location /late {
        proxy_pass http://%%UPSTREAM%%;
    }
    location /jobs {
        dsem jobs limit=9;
        dsem_hold;
        access_log %%DIR%%/prefer.log prefer;
    }
}
EOF_CONF

my @urls = map { $node->url($_) } '/late?hang=1&status=503', '/jobs';
my %shell = shells();
for my $name (sort keys %shell) {
    my $shell = $shell{$name};
    for my $wait (600, 1) {
        my $run = Dsem::Program->start($shell, '-w', $wait, @urls, '--',
            'echo', 'in');
        wait_for { $up->now == 1 } 15, 'the first one asked';
        my $asked = now();
        wait_for { now() - $asked > 1.1 } 15, 'more than a second';
        $up->release_all;
        my ($status, $out) = $run->finish;
        is $status, 0, "$name: a permit of the second one";
        # a machine that stands still for so long ends the short wait before
        like $out, qr/\Adsem-run: \Q$urls[0]\E: .*\nin\n\z/,
            "$name: after the first";
        wait_for { !$up->now } 15, 'the first one left';
    }
}

wait_for { prefer() == 2 * keys %shell } 15, 'all logged';
for (my @prefer = prefer(); my ($long, $short) = splice @prefer, 0, 2;) {
    my ($left) = $long =~ /\Await=(\d+)\z/ or diag $long;
    cmp_ok $left, '<', 600, 'what is left';
    # a machine so slow would have failed before
    cmp_ok $left, '>', 500, 'all of it';
    is $short, 'wait=0', 'not at all';
}

$t->done;

sub prefer {
    open my $file, '<', $node->dir . '/prefer.log' or return;
    return map { s/\n//r } readline $file;
}
