#!/usr/bin/perl

# Recipe "With Redis Sentinel": the configurations of nginx, of the Redis
# servers and of the sentinels fit together. The limit holds before and after a
# failover, and the user on the sentinels may ask for the master only.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/../lib", "$FindBin::Bin/../run";

use Dsem::Recipe;
use Dsem::Test;
use Fleet::Conf;

# passwords of its own
delete $ENV{DSEM_ACL};

my $t = Dsem::Test->new;

my ($recipe, $redis, $sentinel) = recipe('With Redis Sentinel',
    'timeout=10s' => 'timeout=60s',
    '10.0.0.5:26379 10.0.0.6:26379 10.0.0.7:26379' => '%%SENTINELS%%',
    '10.0.0.5 6379' => '%%MASTER%%',
    '/etc/nginx/' => $t->dir . '/');
my $limit = Fleet::Conf::semaphore($recipe, 'reports')->{limit};
my %secret;
($secret{'redis-password'}) = $redis =~ /^requirepass (\S+)/m;
($secret{'sentinel-password'}) = $sentinel =~ /^user dsem on >(\S+)/m;
my ($admin) = $sentinel =~ /^user default on >(\S+)/m;
for my $file (keys %secret) {
    open my $fh, '>', $t->dir . "/$file" or die "$file: $!";
    print $fh "$secret{$file}\n";
}

my $set = $t->sentinel(password => $secret{'redis-password'},
    args => [ map { /^(\S+) (.*)/ ? ("--$1", $2) : () } split /\n/, $redis ],
    sentinel_password => $admin, lines => [ split /\n/, $sentinel ]);
my $up = $t->upstream;

my @fleet = $t->fleet(2, <<'EOF_CONF' =~ s/%%RECIPE%%/$recipe/r);
%%GLOBALS%%
events { }
http {
    %%HTTP%%
    dsem_node %%NODE%%;
    upstream backend {
        server %%UPSTREAM%%;
    }
    %%RECIPE%%
}
EOF_CONF

sub full {
    my ($name) = @_;
    my @running = map { $fleet[ $_ % 2 ]->begin('/reports/?hang=1') }
        1 .. $limit + 2;
    eventually { $up->now == $limit
        && Dsem::State->new($set->master)->waiting('reports') == 2 }
        "$name: limit reached, the rest queued";
    return @running;
}

my $old = $set->master;
my @running = full('before');
$set->failover;
my $new = $set->replaced($old)->{master};
wait_for { $up->release_all; !grep { !$_->done } @running } 15, 'all of them';
is_deeply [ map { $_->status } @running ], [ (200) x @running ],
    'every request served';
@running = full('after');
wait_for { $up->release_all; !grep { !$_->done } @running } 15, 'all of them';
is $up->peak, $limit, 'limit never exceeded';
is scalar(map { $_->grep_log(qr/\[error\]/) } @fleet), 0, 'no error';

# the user of nginx on a sentinel

my $client = ($set->sentinels)[0]->client;
$client->cmd('AUTH', 'dsem', $secret{'sentinel-password'});
is_deeply [ @{ $client->cmd(qw(SENTINEL GET-MASTER-ADDR-BY-NAME mymaster)) } ],
    [ split /:/, $new->address ], 'user may ask for the master';
ok !eval { $client->cmd(qw(SENTINEL FAILOVER mymaster)) }, 'and no more';

$t->done;
