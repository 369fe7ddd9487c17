package Dsem::Lua;

# nginx's Lua module, for a test that needs one.
#
#   my $lua = lua_modules;    # lines that load it, '' where it is linked in
#
# Without one the file is skipped. Linked in, as in OpenResty, it has its place
# by nginx's configuration, whatever the order of the lines.
#
# Called by: tests.

use strict;
use warnings;

use Exporter qw(import);
use Test::More ();

our @EXPORT = qw(lua_modules);

my $MODULES = '/usr/lib/nginx/modules';

sub lua_modules {
    my $nginx = $ENV{DSEM_NGINX};
    return '' if $nginx && qx('$nginx' -V 2>&1) =~ m{/lua-nginx-module\b};
    Test::More::plan(skip_all => 'no lua module for this nginx')
        if $nginx || ! -e "$MODULES/ngx_http_lua_module.so";
    return join "\n", map { "load_module $MODULES/${_}_module.so;" }
        qw(ndk_http ngx_http_lua);
}

1;
