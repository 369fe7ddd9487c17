# Builds the dynamic module, tests it, installs it.  "make help" tells what
# can be said.
#
# nginx's own configure and Makefile do the work, in build/nginx, which links
# to the nginx sources and so never writes into them.  Everything that is
# built goes to build/.

ifeq ($(origin CC),default)
CC = gcc
endif

NGINX = nginx
NGINX_SRC =
CONFIGURE =
CFLAGS = $(shell dpkg-buildflags --get CFLAGS 2>/dev/null || echo -g -O2)
CPPFLAGS = $(shell dpkg-buildflags --get CPPFLAGS 2>/dev/null)
LDFLAGS = $(shell dpkg-buildflags --get LDFLAGS 2>/dev/null)

T = t
J = 2
LONG =
PREFIX = $(or $(shell $(NGINX) -V 2>&1 | sed -n \
    's/.*--modules-path=\([^ ]*\).*/\1/p'),/usr/lib/nginx/modules)

MODULE = build/ngx_http_dsem_module.so
SOURCE = $(or $(abspath $(NGINX_SRC)),/usr/share/nginx/src)
WARNINGS = -Wall -Wextra -Wno-unused-parameter -Werror

# the order is that of the enum in ngx_http_dsem_scripts.h
SCRIPTS = hello declare declared beat sync bye
TABLE = build/nginx/objs/ngx_http_dsem_scripts.c

BUILD_NEEDS = make libhiredis-dev $(filter gcc clang,$(CC)) \
    $(if $(NGINX_SRC),libpcre2-dev zlib1g-dev,nginx nginx-dev)
TEST_NEEDS = nginx redis-server perl libev-perl \
    libredis-perl libcpanel-json-xs-perl libio-pty-perl \
    libnginx-mod-http-lua lua-check \
    curl nghttp2-client
ASAN_NEEDS = dpkg-dev libpcre2-dev zlib1g-dev libssl-dev
BENCH_NEEDS = nginx redis-server perl libev-perl \
    libredis-perl libcpanel-json-xs-perl wrk haproxy libnginx-mod-http-lua \
    lua-resty-core
RUN_NEEDS = nginx redis-server perl libev-perl \
    libredis-perl libcpanel-json-xs-perl curl

# the distribution's own nginx, built from its source
ASAN = build/asan
ASAN_FLAGS = -O1 -g -fno-omit-frame-pointer -DNGX_DEBUG_PALLOC=1 \
    -fsanitize=address,undefined
# what nginx itself counts on
ASAN_FLAGS += -fno-sanitize=nonnull-attribute,alignment
# nginx frees little when it ends, so a leak means nothing, and has its names of
# modules in every module; what is freed is kept for so long that its use
# shows, but not so long that memory seems lost
ASAN_OPTIONS = \
    detect_leaks=0:abort_on_error=1:quarantine_size_mb=1:detect_odr_violation=0
APT_PRIVATE = -qq -o APT::Sandbox::User=root \
    -o Dir::Etc::SourceList=/dev/null \
    -o Dir::Etc::SourceParts=$(CURDIR)/$(ASAN)/apt/sources \
    -o Dir::State::Lists=$(CURDIR)/$(ASAN)/apt/lists \
    -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache=

all: module

help:
	@echo 'make                 build $(MODULE)'
	@echo 'make CC=clang        the same with another compiler'
	@echo 'make NGINX_SRC=dir   the same for an nginx source tree;'
	@echo '                     CONFIGURE="--with-..." says how it is built'
	@echo 'make install         to $(PREFIX), below DESTDIR'
	@echo 'make test            every test; T=t/redis one folder, T=t/redis/down.t one'
	@echo '                     file, LONG=1 the long way, J=1 one at a time'
	@echo 'make test-asan       the same with AddressSanitizer and UBSan, in an'
	@echo '                     nginx built from the source of the distribution'
	@echo 'make run             a small fleet on this machine, to play with'
	@echo 'make bench           the price of a cap, beside others; ROUNDS=1 SECONDS=1'
	@echo 'make bench-scale     what one Redis can carry'
	@echo 'make bench-instructions'
	@echo '                     what nginx executes for a request'
	@echo 'make clean           remove build/'


# what is missing is installed by root, and named to everybody else; no
# service is started on the way
define need
	@command -v dpkg-query >/dev/null || exit 0; \
	there=$$(dpkg-query -W -f '$${db:Status-Status} $${Package}\n' $(1) \
	    2>/dev/null | sed -n 's/^installed //p'); \
	missing=$$(printf '%s\n' $(sort $(1)) | grep -vxF "$$there" \
	    | tr '\n' ' '); \
	[ -n "$$missing" ] || exit 0; \
	if [ "$$(id -u)" != 0 ]; then \
	    echo "make: please install these packages: $$missing" >&2; exit 1; \
	fi; \
	export DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 SYSTEMD_OFFLINE=1; \
	install="apt-get install -qy --no-install-recommends $$missing"; \
	$$install || { apt-get update -q && $$install; }
endef

build-needs:
	$(call need,$(BUILD_NEEDS))

test-needs:
	$(call need,$(BUILD_NEEDS) $(TEST_NEEDS))

asan-needs:
	$(call need,$(BUILD_NEEDS) $(TEST_NEEDS) $(ASAN_NEEDS))

run-needs:
	$(call need,$(BUILD_NEEDS) $(RUN_NEEDS))

bench-needs:
	$(call need,$(BUILD_NEEDS) $(BENCH_NEEDS))


# a change of any of these asks for configure; the file changes only with them
build/settings: build-needs FORCE
	@mkdir -p build
	@printf '%s\n' '$(CC)' '$(SOURCE)' '$(CONFIGURE)' '$(CFLAGS)' \
	    '$(CPPFLAGS)' '$(LDFLAGS)' '$(ASAN_FLAGS)' "$$(ls -l --full-time -d $(SOURCE)/src)" \
	    "$$(ls ngx_module)" > $@.new
	@cmp -s $@.new $@ && rm $@.new || mv $@.new $@

# conf_flags (Debian's way to tell how nginx was built) is a bash array; a
# source tree from the repository has its configure in auto/
build/nginx/objs/Makefile: config build/settings
	@rm -rf build/nginx
	@mkdir -p build/nginx
	@ln -s $(filter-out %/Makefile %/objs,$(wildcard $(SOURCE)/*)) build/nginx
	@cd build/nginx && bash -c 'if [ -f conf_flags ]; then . ./conf_flags; \
	    else NGX_CONF_FLAGS=(--with-compat); fi; \
	    configure=./configure; \
	    [ -f $$configure ] || configure=auto/configure; \
	    $$configure "$${NGX_CONF_FLAGS[@]}" $(CONFIGURE) \
	        --with-cc="$(CC)" \
	        --with-cc-opt="$(CFLAGS) -fPIC $(CPPFLAGS) $(WARNINGS)" \
	        --with-ld-opt="$(LDFLAGS) -fPIC" \
	        --builddir=objs --add-dynamic-module=$(CURDIR)' \
	    > configure.log 2>&1 || { tail -n 20 configure.log; exit 1; }
	@touch $@

# configure makes it the first time
$(TABLE): build/nginx/objs/Makefile lua/embed.awk $(wildcard lua/*.lua \
    lua/include/*.lua)
	@awk -v dir=lua -f lua/embed.awk $(SCRIPTS) > $@.new
	@mv $@.new $@

module: $(TABLE)
	@$(MAKE) -s -C build/nginx -f objs/Makefile modules
	@cmp -s build/nginx/objs/$(notdir $(MODULE)) $(MODULE) \
	    || cp --remove-destination build/nginx/objs/$(notdir $(MODULE)) $(MODULE)

install: module
	install -d $(DESTDIR)$(PREFIX)
	install -m 644 $(MODULE) $(DESTDIR)$(PREFIX)

# prove passes where it finds no test
test-files:
	@for name in $(T); do \
	    find "$$name" -name '*.t' 2>/dev/null | grep -q . && continue; \
	    echo "make: T=$$name: no such test file or folder" >&2; exit 1; \
	done

test: test-files test-needs module
	@DSEM_LONG=$(LONG) prove -r --timer -j$(J) -It/lib $(T)

# apt learns here, and only here, where the sources are
$(ASAN)/nginx/configure:
	@rm -rf $(ASAN)
	@mkdir -p $(ASAN)/apt/sources $(ASAN)/apt/lists/partial
	@for file in /etc/apt/sources.list /etc/apt/sources.list.d/*; do \
	    to=$(ASAN)/apt/sources/$$(basename $$file); \
	    case $$file in \
	    *.list) sed -n 's/^deb\([[:blank:]]\)/deb-src\1/p' $$file ;; \
	    *.sources) sed 's/^Types:.*/Types: deb-src/' $$file ;; \
	    esac 2>/dev/null > $$to; \
	    [ -s $$to ] || rm $$to; \
	done
	@apt-get $(APT_PRIVATE) update
	@cd $(ASAN) && apt-get $(APT_PRIVATE) source nginx > source.log
	@cd $(ASAN) && ln -s nginx-*/ nginx

$(ASAN)/nginx/objs/Makefile: config build/settings $(ASAN)/nginx/configure
	@cd $(ASAN)/nginx && bash -c '. /usr/share/nginx/src/conf_flags; \
	    ./configure "$${NGX_CONF_FLAGS[@]}" --with-cc="$(CC)" \
	        --with-cc-opt="$(ASAN_FLAGS) $(WARNINGS)" \
	        --with-ld-opt="$(ASAN_FLAGS)" --add-dynamic-module=$(CURDIR)' \
	    > configure.log 2>&1 || { tail -n 20 configure.log; exit 1; }

$(ASAN)/nginx/objs/ngx_http_dsem_scripts.c: $(ASAN)/nginx/objs/Makefile \
    lua/embed.awk $(wildcard lua/*.lua lua/include/*.lua)
	@awk -v dir=lua -f lua/embed.awk $(SCRIPTS) > $@.new
	@mv $@.new $@

asan: asan-needs $(ASAN)/nginx/objs/ngx_http_dsem_scripts.c
	@$(MAKE) -s -C $(ASAN)/nginx -f objs/Makefile binary modules

test-asan: test-files asan
	@DSEM_NGINX=$(CURDIR)/$(ASAN)/nginx/objs/nginx \
	    DSEM_MODULE=$(CURDIR)/$(ASAN)/nginx/objs/$(notdir $(MODULE)) \
	    ASAN_OPTIONS=$(ASAN_OPTIONS) UBSAN_OPTIONS=print_stacktrace=1 \
	    DSEM_TIME_FACTOR=3 DSEM_LONG=$(LONG) \
	    prove -r --timer -j$(J) -It/lib $(T)

run: run-needs module
	@perl -It/lib t/run/fleet.pl

bench: bench-needs module
	@ROUNDS=$(ROUNDS) SECONDS=$(SECONDS) WORKERS=$(WORKERS) \
	    perl -It/lib t/bench/bench.pl

bench-scale: bench-needs
	@ROUNDS=$(ROUNDS) perl -It/lib t/bench/scale.pl

bench-instructions: bench-needs module
	$(call need,valgrind)
	@perl -It/lib t/bench/instructions.pl

clean:
	rm -rf build

FORCE:

.DELETE_ON_ERROR:
.PHONY: all help build-needs test-needs asan-needs run-needs bench-needs \
    module install test-files test asan test-asan run bench bench-scale \
    bench-instructions clean
