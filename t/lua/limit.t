#!/usr/bin/perl

# Only asks that may set the limit change the stored limit. Releases, checks
# and draining workers use the stored one.

use lib 't/lib';
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;
my $one = $scripts->session('one')->enter;
my $old = $scripts->session('old')->enter;

$one->ask('api', $_, limit => 3) for 1 .. 3;
is $one->sync('api', limit => 9)->{limit}, 3, 'check ignored';
is $one->sync('api', limit => 9, release => 1)->{limit}, 3, 'release ignored';
is $old->ask('api', 4, limit => 9, may_set => 0), 'granted',
    "draining worker's ask granted";
is $old->{asked}{limit}, 3, 'draining worker ignored';
is $old->ask('api', 5, limit => 9, may_set => 0), 'queued',
    'stored limit applied';
is $scripts->state->limit('api'), 3, 'limit stored';

# lowered: no permit is revoked, none is granted until the sum fits
is $one->ask('api', 6, limit => 2), 'queued', 'lowered by an ask';
is $one->sync('api', release => 1)->{waiting}, 2, 'no grant at the limit';
is $one->sync('api', release => 1)->{waiting}, 1, 'grant below the limit';
is $one->{asked}{limit}, 2, 'new limit reported';

# raised: waiting tickets are granted first
my $reply = $one->sync('api', limit => 4, ask => [ [7], [8] ]);
is_deeply $reply->{granted}, [6], 'waiting ticket served';
is $reply->{asked}{7}{verdict}, 'granted', 'new ask served';
is $reply->{asked}{8}{verdict}, 'queued', 'limit kept';

# no limit is stored yet
is $old->ask('new', 9, limit => 1, may_set => 0), 'granted',
    'first limit accepted';
is $old->ask('new', 10, limit => 5, may_set => 0), 'queued',
    'first limit kept';

# a ticket heavier than the lowered limit is stepped over until its next check
$one->ask('web', 1, limit => 3, weight => 3);
$one->ask('web', 2, limit => 3, weight => 3);
$one->ask('web', 3, limit => 2, weight => 2);
is_deeply $one->sync('web', release => 3)->{granted}, [3],
    'ticket stepped over';
is $one->sync('web', check => [ [ 2, 3 ] ])->{checked}{2}, 2, 'ticket rejected';
