#!/usr/bin/perl

# The module shares no symbol with another one.  nchan, which contains its own
# hiredis and exports it, is loaded before the module and after it: both
# modules work, and no worker dies.

use lib 't/lib';
use Dsem::Test;

my $NCHAN = '/usr/lib/nginx/modules/ngx_nchan_module.so';

my $t = Dsem::Test->new;
$t->redis;
my $up = $t->upstream;

my $conf = <<'EOF_CONF';
%%FIRST%%
%%GLOBALS%%
%%LAST%%
worker_processes 2;
events { }
http {
    %%HTTP%%
    dsem_redis %%REDIS%%;
    dsem_node %%NODE%%;
    dsem_reuse off;
    nchan_redis_url redis://%%REDIS%%;
    server {
        listen 127.0.0.1:%%PORT%%;
        location /capped {
            dsem api limit=2 queue=100;
            proxy_pass http://%%UPSTREAM%%;
        }
        location /channel {
            nchan_pubsub;
            nchan_channel_id %%NODE%%;
            nchan_use_redis on;
        }
    }
}
EOF_CONF

my @before = (FIRST => "load_module $NCHAN;", LAST => '');
my @after = (FIRST => '', LAST => "load_module $NCHAN;");

# what nginx and other modules can see

my $static = $ENV{DSEM_STATIC_NGINX};
my $file = $static ? $ENV{DSEM_NGINX} : Dsem::Node::Conf->module;
my @defined = symbols('--defined-only', $file);

is_deeply(\@defined, [qw(ngx_http_dsem_module ngx_module_names
    ngx_module_order ngx_modules)], 'exported by the module') unless $static;
is_deeply([grep { /redis|^sds/ && !/^ngx_/ } @defined], [],
    'no hiredis exported');
is_deeply([grep { /redis/ && !/^ngx_/ } symbols('--undefined-only', $file)],
    [], 'no hiredis imported');

# with the other module

SKIP: {
    my $reason = unusable();
    skip $reason, 1 if $reason;

    works_with($t->node('before', $conf, @before));
    works_with($t->node('after', $conf, @after));
}

done_testing();

###############################################################################

sub symbols {
    my ($which, $path) = @_;
    open my $fh, '-|', 'nm', '-D', '-j', $which, $path or die "nm: $!";
    return sort map { chomp; s/@.*//r } <$fh>;
}

# A sentence where this nginx and the packaged nchan are no pair.
sub unusable {
    return "$NCHAN is missing" if !-e $NCHAN;
    my ($status, $said) = $t->test_conf($conf, @before);
    return $said =~ /(module "\S+" (?:version|is not binary).*)/ ? $1 : '';
}

sub works_with {
    my ($node) = @_;
    my $name = 'nchan ' . $node->name;
    my @workers = $node->workers;

    my $load = $t->load(urls => [$node->url('/capped?t=2')], clients => 20,
        requests => 300);
    is_deeply($load->{statuses}, { 200 => 300 }, "$name: requests served");
    is($up->peak, 2, "$name: limit reached, not exceeded");
    eventually { $t->state->held('api') == 0 } "$name: permits released";

    my $posted;
    eventually {
        $posted = $node->get('/channel', -method => 'POST', -body => $name);
        $posted->status =~ /^20[12]$/;
    } "$name: message published";
    is($node->get('/channel')->body, $name, "$name: message delivered");

    is_deeply([$node->workers], \@workers, "$name: same workers");
    is(scalar $node->grep_log(qr/exited on signal/), 0,
        "$name: no worker died");
    $up->reset;
}
