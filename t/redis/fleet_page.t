#!/usr/bin/perl

# docs/fleet.md, as printed: a Redis with its two lines accepts nodes
# at its other address, two nodes share the permits; a node
# in a dry run passes what the node beside it rejects.

use lib 't/lib';
use Dsem::Test;

use Dsem::Pages;

my $t = Dsem::Test->new;
my $text = section('The second node');
my ($settings, $directives) = map { s/^    //mgr }
    $text =~ /^(    bind .*?\n)\n/ms, $text =~ /^(    dsem_redis .*?\n)\n/ms;
my ($dry) = section('The roll-out') =~ /^    echo '(dsem_dry_run on;)'/m;

my %line = map { /^(\w+) (.*)/ } split /\n/, $settings;
like($line{bind}, qr/^127\.0\.0\.1 -::1 10\.0\.0\.5$/, 'bind shown');
my $redis = $t->redis(args => ['--protected-mode', 'yes',
    '--bind', split(' ', $line{bind} =~ s/10\.0\.0\.5/127.0.0.5/r),
    '--requirepass', $line{requirepass}], password => $line{requirepass});
my $up = $t->upstream;

sub node {
    my ($name, $more) = @_;
    my $conf = $directives =~ s/10\.0\.0\.5:6379/'127.0.0.5:' . $redis->port/er;
    $conf =~ s{/etc/nginx/redis-password}{%%DIR%%/../redis-password};
    $conf =~ s/listen 127\.0\.0\.1:8010/listen 127.0.0.1:%%PORT2%%/;
    return $t->node($name, <<"EOF_CONF");
%%GLOBALS%%
events { }
http {
    %%HTTP%%
    $conf
    dsem_node %%NODE%%;
    $more
    server {
        listen 127.0.0.1:%%PORT%%;
        add_header X-Status \$dsem_status always;
        location / {
            dsem reports limit=1;
            proxy_pass http://%%UPSTREAM%%;
        }
    }
}
EOF_CONF
}

open my $fh, '>', $t->dir . '/redis-password' or die "redis-password: $!";
print $fh "$line{requirepass}\n";
close $fh;

my ($one, $two) = (node('one', ''), node('two', ''));
my $dryrun = node('dry', $dry);
for my $node ($one, $two, $dryrun) {
    my $health = 'http://127.0.0.1:' . $node->port(2) . '/dsem/health';
    eventually { $node->client->get($health)->status == 200 } 'healthy';
}

my $held = $one->begin('/?hang=1');
wait_for { $up->now == 1 } 15, 'one at the backend';
my $second = $two->get('/');
is($second->status, 503, 'the permits are shared');
my $passed = $dryrun->get('/');
is($passed->status, 200, 'a dry run passes');
$up->release_all;
is($held->wait->status, 200, 'the first answered');

done_testing();
