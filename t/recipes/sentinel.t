#!/usr/bin/perl

# Recipe "With Redis Sentinel": the configurations of nginx, of the Redis
# servers and of the sentinels fit together. The limit holds before and after a
# failover, and the user on the sentinels may ask for the master only.

use lib qw(t/lib t/run);
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
my $up = $t->upstream(service => 0.050);

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

# what is printed is what the servers run with, and nothing else about replicas

my %printed = $redis =~ /^(\S+) (.*)/mg;
for my $server ($set->servers) {
    my %runs = map { @{ $server->cmd(qw(CONFIG GET), $_) } } keys %printed;
    is_deeply \%runs, \%printed, $server->name . ' runs as printed';
}

# writes go on meanwhile: replicas are ahead of the one that is promoted, and
# resynchronize from the beginning

my $old = $set->master;
# each node knows of the other one, and of its share of the limit
$old->all_beat(2);
my $load = $t->load_start(urls => [ map { $_->url('/reports/') } @fleet ],
    clients => 2 * $limit, seconds => 3600, timeout => 70);
wait_for { $up->peak == $limit } 15, 'limit reached';
$set->failover;
my $new = $set->replaced($old)->{master};
wait_for { $new->cmd(qw(INFO replication)) =~ /^min_slaves_good_slaves:[12]/m }
    30, 'a replica that follows it';
my $served = $up->served;
wait_for { $up->served > $served + 3 * $limit } 30, 'more requests served';
$load->stop;
is_deeply [ keys %{ $load->wait->{statuses} } ], [200], 'no request refused';
is $up->peak, $limit, 'limit reached, never exceeded';
is scalar(map { $_->grep_log(qr/\[error\]/) } @fleet), 0, 'no error';
my %status = map { $_->{dsem_status} => 1 } map { $_->access_log } @fleet;
is_deeply [ sort keys %status ], [qw(PASSED QUEUED)], 'every one with a permit';

# the user of nginx on a sentinel

my $client = ($set->sentinels)[0]->client;
$client->cmd('AUTH', 'dsem', $secret{'sentinel-password'});
is_deeply [ @{ $client->cmd(qw(SENTINEL GET-MASTER-ADDR-BY-NAME mymaster)) } ],
    [ split /:/, $new->address ], 'user may ask for the master';
ok !eval { $client->cmd(qw(SENTINEL FAILOVER mymaster)) }, 'and no more';

$t->done;
