#!/usr/bin/perl

# adjust moves the limit of a name with limit=auto. The number is a group of the
# field that all syncs read, and in force at once.

use lib 't/lib';
use Dsem::Auto;
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;
my $state = $scripts->state;
my $redis = $scripts->redis;
my ($one, $two) = map { $scripts->session($_) } qw/one two/;

$one->{epoch} = 1;
is $one->adjust('api')->{status}, 'resync', 'session unknown';
is $redis->cmd('DBSIZE'), 0, 'nothing written';
$one->{epoch} = 0;

$one->configured('a1', { api => '10=1-1000', lit => 5 });
is field('api'), '10=1-1000 a1;', 'configured';
$two->configured('a2', { api => '7=1-1000' });
is field('api'), '10=1-1000 a1 a2;', 'another with the same bounds';
is field('lit'), '5 a1;', 'plain limit';
is $one->sync('api', literal => 1)->{limit}, 10, 'in force';

is_deeply $one->adjust('api'), { status => 'ok', limit => 10, found => 10,
    floor => 0, reason => 'none', latency => 0, next => 100, kept => 10 },
    'no request yet';
is $redis->cmd('TTL', $state->auto_key('api')), 30 * 86400, 'kept for a month';

my $auto = Dsem::Auto->new($scripts, 'api', [ $one ]);
my $reply = $auto->until(sub { $_[0]{found} != 10 }, 10);
is "@$reply{qw/found reason/}", '20 none', 'first requests: a higher limit tried';
is field('api'), '20=1-1000 a1 a2;', 'its number in the field';
is $two->sync('api', literal => 1)->{limit}, 20, 'in force for all';
cmp_ok abs($reply->{floor} - 50_000), '<', 50, 'floor known';
is $reply->{kept}, 10, 'not found yet';
$reply = $auto->until(sub { $_[0]{kept} > 10 }, 5);
is $reply->{reason}, 'probing', 'raised';
is $reply->{limit}, $reply->{found}, 'limit in force';
is $two->sync('api', literal => 1)->{limit}, $reply->{found}, 'for all';

# what a command has to fit
$one->{epoch} = 2;
is $one->adjust('api')->{status}, 'resync', 'other epoch';
$one->{epoch} = 1;
$one->{gen}++;
is $one->adjust('api')->{status}, 'resync', 'other generation';
$one->{gen}--;
is $one->adjust('api')->{status}, 'ok', 'both known';

# a configuration that leaves
$_->bye for $one, $two;
$one = $scripts->session('late')->configured('a3', { api => '10=1-1000' });
isnt field('api'), undef, 'number kept while another comes';
$one->beat;
like field('api'), qr/^\d+=1-1000 a3;$/, 'old ones withdrawn';
$one->bye;
$scripts->session('last')->enter->beat;
is field('api'), undef, 'gone with the last';

$scripts->done;

sub field { return $redis->cmd('HGET', $state->key, "limit:$_[0]") }
