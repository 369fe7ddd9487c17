#!/usr/bin/perl

# The examples of docs/programs.md, as they stand there: only addresses, paths
# and the commands of jobs are replaced.

use lib 't/lib';
use Dsem::Program qw(write_program);
use Dsem::Test;
use Dsem::Tls;

my $t = Dsem::Test->new;

my $page = do {
    my $path = "$Dsem::Test::ROOT/docs/programs.md";
    open my $fh, '<', $path or die "$path: $!";
    local $/;
    readline $fh;
};

# The blocks below a title, of one language.
sub blocks {
    my ($title, $language) = @_;
    my ($text) = $page =~ /^## \Q$title\E\n(.*?)(?=^## |\z)/ms or die $title;
    return $text =~ /^```\Q$language\E\n(.*?)^```$/msg;
}

# ... put into a file of this test, with what is replaced.
sub file {
    my ($name, $text, %place) = @_;
    $text =~ s/\Q$_\E/$place{$_}/g or die "$name has no $_" for keys %place;
    return write_program($t->dir . "/$name", $text);
}

my ($names) = blocks('A semaphore for each kind of job', 'conf');
my ($map, $server) = $names =~ /\A(map .*?^}\n)(.*)\z/ms or die 'no map';
my ($password, $certificate) = blocks('Access', 'conf');

my $tls = Dsem::Tls->certificates($t);
my $ca = $tls->ca;
my ($nginx, $ci) = map { $tls->issue($_, san => 'IP:127.0.0.1') } qw(nginx ci);

file('users', 'ci:{PLAIN}secret');
$password =~ s/jobs\.htpasswd/%%DIR%%\/..\/users/ or die;
$server =~ s/listen 80;/listen 127.0.0.1:%%PORT%%;/ or die;
$certificate =~ s/listen 443/listen 127.0.0.1:%%PORT3%%/ or die;
$certificate =~ s/ jobs\.pem;/ $nginx->{cert};/ or die;
$certificate =~ s/ jobs\.pem;/ $nginx->{key};/ or die;
$certificate =~ s/ ca\.pem;/ $ca;/ or die;

my $redis = $t->redis;
my $node = $t->node('a', <<"EOF_CONF");
%%GLOBALS%%
worker_processes 2;
events { }
http {
    %%HTTP%%
    dsem_redis %%REDIS%%;
    dsem_node %%NODE%%;
    $map
    $server
    server {
        listen 127.0.0.1:%%PORT2%%;
        $password
        location /error {
            dsem \$arg_name limit=1;
            dsem_hold;
        }
    }
    $certificate
}
EOF_CONF

my $url = $node->url('');
my %at = map { $_ => '127.0.0.1:' . $node->port($_) } 1 .. 3;
$ENV{PATH} = $t->dir . ":$Dsem::Test::ROOT/bin:$ENV{PATH}";
chdir $t->dir or die;

# names from the path, limits from the map

my $holder = $node->hold('/jobs/backup');
is $node->get('/jobs/backup', Prefer => 'wait=0')->status, 503, 'one backup';
my @deploys = map { $node->hold('/jobs/deploy') } 1 .. 3;
is $node->get('/jobs/deploy', Prefer => 'wait=0')->status, 503,
    'three deploys';
$_->close for $holder, @deploys;
eventually { !$t->state->held('job:deploy') } 'permits back';

# the examples

file('backup', "#!/bin/sh\necho backup \$*\n");
file('deploy.sh', "#!/bin/sh\necho deployed\n");
file('render', "#!/bin/sh\necho rendered \$1\n");
file('tasks', "first\nsecond\n");

my ($line) = blocks('Examples', 'crontab');
my ($command) = $line =~ /^0 3 \* \* \* root (.*)$/m or die 'no crontab';
my ($deploy, $worker) = blocks('Examples', 'sh');
my ($python) = blocks('Examples', 'python');
my ($js) = blocks('Examples', 'js');

sub example {
    my ($name, $run, $text, %place) = @_;
    my $path = file($name, $text, %place);
    return `$run $path 2>&1`;
}

is example('cron', 'sh', $command, 'http://nginx' => $url),
    "backup --full\n", 'crontab';
is example('ci', 'sh', $deploy, 'nginx-1' => '127.0.0.1:1',
    'nginx-2' => $at{1}) =~ s/^dsem-run: .*\n//r, "deployed\n", 'CI';
is example('worker', 'sh', $worker, 'nginx' => $at{1}),
    "rendered first\nrendered second\n", 'worker';
is example('permit.py', 'python3', $python, 'nginx' => $at{1}), "report\n",
    'Python';
is example('permit.mjs', 'node', $js, 'nginx' => $at{1}), "report\n", 'Node';
is example('argument.py', 'python3', $python,
    'nginx/jobs/report' => "$at{2}/error?name=a"), "report\n",
    'Python: the name is an argument';

# no permit

my @all = map { $node->hold('/jobs/report') } 1 .. 10;
like example('none.py', 'python3', $python, 'nginx' => $at{1},
    'wait=30' => 'wait=0'), qr/BlockingIOError: no permit: 503 REJECTED/,
    'Python: no permit';
like example('none.mjs', 'node', $js, 'nginx' => $at{1}, ', 30)' => ', 0)'),
    qr/Error: no permit: 503 REJECTED/, 'Node: no permit';
$_->close for @all;
like example('error.py', 'python3', $python,
    'nginx/jobs/report' => "$at{2}/error"),
    qr/ConnectionError: no permit: 503 ERROR/, 'Python: an error';
like example('error.mjs', 'node', $js, 'nginx/jobs/report' => "$at{2}/error"),
    qr/Error: no permit: 503 ERROR/, 'Node: an error';

# access

{
    local $ENV{SSL_CERT_FILE} = $ca;
    like example('tls.py', 'python3', $python, 'http://nginx' => "https://$at{3}"),
        qr/ConnectionError: no permit: 400/, 'Python: TLS, no certificate';
}
file('password', "user = \"ci:secret\"\n");
file('certificate', "cert = \"ci.pem\"\ncacert = \"ca.pem\"\n",
    'ci.pem' => "$ci->{cert}\"\nkey = \"$ci->{key}", 'ca.pem' => $ca);
file('authority', "cacert = \"$ca\"\n");

sub deploy {
    my ($scheme, $at, @options) = @_;
    my $said = `dsem-run @options $scheme://$at{$at}/jobs/deploy -- echo in 2>&1`;
    return ($? >> 8) . " $said";
}

is deploy('http', 2, '-K password'), "0 in\n", 'password';
like deploy('http', 2), qr/^69 .*the answer is 401/, 'no password';
is deploy('https', 3, '-K certificate'), "0 in\n", 'certificate';
like deploy('https', 3, '-K authority'), qr/^69 .*the answer is 400/,
    'no certificate';

chdir $Dsem::Test::ROOT;
$t->done;
