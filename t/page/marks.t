#!/usr/bin/perl

# The page marks a dry run, shows the last limit of a name at rest, and lists the
# nodes of the fleet. The names "." and "..", which browsers take for folders,
# can be opened and changed. An answer that leaves open whether a change was made
# is not shown as "Not done".

use lib 't/lib';
use Dsem::Browser qw(browser_missing);
use Dsem::Test;

plan skip_all => browser_missing() if browser_missing();

my $t = Dsem::Test->new;
my $browser = Dsem::Browser->new($t);
my $redis = $t->redis;
my $proxy = $t->proxy($redis->address);

my @fleet = $t->fleet(2, <<'EOF_CONF', PROXY => $proxy->address);
worker_processes 2;
dsem_redis %%PROXY%%;
dsem_redis_timeout 1s;
location / {
    dsem "$arg_name" limit=$arg_limit;
    empty_gif;
}
location /dry {
    dsem trial limit=7;
    dsem_dry_run on;
    empty_gif;
}
location /dsem/ {
    dsem_api write=on;
}
EOF_CONF
my $node = $fleet[0];

is $node->get("/?name=$_&limit=3")->status, 200, "name $_"
    for '.', '..', 'tenant';
is $node->get('/dry')->status, 200, 'dry run';
wait_for { $t->state->held('tenant') == 0 } 15, 'at rest';

$browser->open($node->url('/dsem/'), width => 1280);
$browser->evaluate('settings.poll = 250');
eventually { $browser->count('tr.row') == 4 } 'a row for each name';
eventually { marks('trial') eq 'dry run' } 'dry run marked';
is marks('tenant'), '', 'and only there';
$browser->click('#views button >> text=Dry run');
is $browser->count('tr.row'), 1, 'dry runs alone';
$browser->click('#views button >> text=All');
eventually { $browser->evaluate(
    'table.rows.get("tenant").cells.limit.innerText') =~ /last 3\s*$/ }
    'last limit of a name at rest';

# the nodes

eventually { $browser->text('#fleet') eq '4 workers on 2 nodes' }
    'workers counted';
$browser->click('#nodes summary');
is $browser->text('#node-rows') =~ s/\s+/ /gr =~ s/\d+\.\d s ago/ago/gr,
    'n1 2 0 ago n2 2 0 ago', 'each with its workers';
$browser->screenshot('marks-1280');
is_deeply [$browser->findings], [], 'nothing serious';
$browser->size(390, 1500);
$browser->screenshot('marks-390');
is_deeply [$browser->findings], [], 'nothing serious, phone';
$browser->size(1400, 900);

# names that a browser takes for folders

for my $name ('.', '..') {
    $browser->evaluate(qq{details.toggle(table.rows.get("$name"))});
    eventually { $browser->text('.details') =~ /In force: unknown/ }
        qq{"$name" open};
    $browser->fill('.control input', 5);
    $browser->press('Enter');
    eventually { $browser->text('.control ~ .said') eq 'Limit 5 is in force.' }
        qq{"$name" limited};
    is $browser->text('.details .said'), '', qq{"$name" read};
}

# an answer that may come too late

$proxy->freeze('s2c');
$browser->fill('.control input', 6);
$browser->press('Enter');
eventually { $browser->text('.control ~ .said') =~
    /^Failed: .*may have been made/ } 'a change that may have been made';
$proxy->thaw;
is_deeply [grep { !/status of 50[34]/ } $browser->problems], [], 'no error';

$t->done;

sub marks {
    my ($name) = @_;
    return $browser->evaluate("table.rows.get('$name')?.marks.innerText") // '';
}
