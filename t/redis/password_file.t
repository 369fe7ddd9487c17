#!/usr/bin/perl

# "password_file" is read by the master, which may read more than its workers,
# at start and at each reload.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
my $up = $t->upstream;
my $redis = $t->redis;
$redis->cmd(qw(ACL SETUSER app on >first ~* &* +@all));

my $file = $t->dir . '/password';

sub password {
    my ($text) = @_;
    open my $fh, '>', $file or die "$file: $!";
    print $fh $text;
    close $fh;
    chmod 0400, $file;
}

password("first\r\nnot this\n");

# the workers of a master that is root are another user

my $node = $t->node('single', <<'EOF_CONF', FILE => $file);
worker_processes 1;
dsem_redis %%REDIS%% user=app password_file=%%FILE%%;
location / {
    dsem api limit=1 queue=10;
    dsem_on_error reject;
    # else own permits serve until the fence
    dsem_reuse off;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

is $node->get('/')->status, 200, 'the password of the first line';

# after a change workers keep what was read

$redis->cmd(qw(ACL SETUSER app resetpass >second));
password('second');
my ($worker) = $node->workers;
$redis->client_kill;
eventually { $node->get('/')->status == 503 } 'the old one is wrong';
is_deeply [$node->workers], [$worker], 'the same worker';
$node->reload;
eventually { $node->get('/')->status == 200 } 'read again at a reload';

# a reload without the file changes nothing

unlink $file;
$t->expect_log(qr/open\(\) password file/);
$node->signal('HUP');
eventually { $node->grep_log(qr/\[emerg\].*open\(\) password file/) }
    'a reload without the file fails';
is $node->get('/')->status, 200, 'and changes nothing';

$t->done;
