# Builds, tests and installs the dynamic module.  "make help" lists the
# targets and the variables.
#
# nginx's own configure and Makefile run in build/nginx, a directory of links
# to the nginx sources, so that the sources stay unchanged.  All output is in
# build/.

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
J = 3
LONG =
NAME =
ACL =
SYSTEMS =
VALKEY_T =
FORK_T =
MATRIX = /var/tmp/dsem-matrix
NGINX_STABLE_SRC =
HIREDIS_SRC =
MUSL_T =
OPENRESTY_SRC =
ANGIE_SRC =
NGINX_TESTS =
STAGES =
PREFIX = $(or $(shell $(NGINX) -V 2>&1 | sed -n \
    's/.*--modules-path=\([^ ]*\).*/\1/p'),/usr/lib/nginx/modules)

VERSION := $(shell sed -n 's/^\#define NGX_HTTP_DSEM_VERSION *"\(.*\)"/\1/p' \
    ngx_module/ngx_http_dsem_module.h)
DIST = dsem-$(VERSION)
RELEASE = build/release
DEB_SUFFIX =

MODULE = build/ngx_http_dsem_module.so
SOURCE = $(or $(abspath $(NGINX_SRC)),/usr/share/nginx/src)
WARNINGS = -Wall -Wextra -Wno-unused-parameter -Werror

# the order is that of the enum in ngx_http_dsem_scripts.h
SCRIPTS = hello declare declared beat sync bye configure \
    inspect names order adjust
TABLE = build/nginx/objs/ngx_http_dsem_scripts.c
PAGE = build/nginx/objs/ngx_http_dsem_page.c
EMBED_PAGE = awk -f ngx_module/http/page.awk ngx_module/http/page.html

BUILD_NEEDS = make libhiredis-dev libssl-dev $(filter gcc clang,$(CC)) \
    $(if $(NGINX_SRC),libpcre2-dev zlib1g-dev,nginx nginx-dev)
TEST_NEEDS = nginx redis-server perl libev-perl \
    libredis-perl libcpanel-json-xs-perl libio-pty-perl \
    libnginx-mod-http-lua libnginx-mod-http-perl libnginx-mod-nchan lua-check \
    curl nghttp2-client gdb openssl stunnel4 prometheus spin lua5.1 python3 busybox \
    $(if $(shell which node),,nodejs)
# for the tests of the page, where they are asked for: a browser; for these and
# those of packages, npm unless there is another one
BROWSER = $(filter t t/ t/page%,$(T))
NPM = $(BROWSER)$(filter t/package t/package/ t/package/compose% \
    t/package/kubernetes%,$(T))
BROWSER_MODULES = build/page/node_modules/.package-lock.json
TEST_NEEDS += $(if $(BROWSER),chromium) \
    $(if $(NPM),$(if $(shell which npm),,npm))
ASAN_NEEDS = dpkg-dev libpcre2-dev zlib1g-dev libssl-dev
FUZZ_NEEDS = dpkg-dev binutils clang libclang-rt-dev llvm
BENCH_NEEDS = nginx redis-server perl libev-perl \
    libredis-perl libcpanel-json-xs-perl wrk haproxy libnginx-mod-http-lua \
    lua-resty-core
LINT_NEEDS = gcc clang-tidy cppcheck lua-check shellcheck git perl libev-perl \
    libredis-perl libcpanel-json-xs-perl libio-pty-perl
DEB_NEEDS = build-essential dpkg-dev debhelper nginx-dev libhiredis-dev \
    libssl-dev
PACKAGES_NEEDS = rpm rpmlint cpio binutils musl-tools musl-dev
MODEL_NEEDS = spin gcc perl
SITE_NEEDS = mkdocs perl
LIMITS_NEEDS = lua5.1
DEMO_NEEDS = prometheus
RUN_NEEDS = nginx redis-server perl libev-perl \
    libredis-perl libcpanel-json-xs-perl curl
SOAK_NEEDS = nginx redis-server perl gcc libev-perl \
    libredis-perl libcpanel-json-xs-perl

# nginx and hiredis of the distribution, built from their sources
ASAN = build/asan
ASAN_FLAGS = -O1 -g -fno-omit-frame-pointer -DNGX_DEBUG_PALLOC=1 \
    -fsanitize=address,undefined
# nginx itself relies on these two
ASAN_FLAGS += -fno-sanitize=nonnull-attribute,alignment
# leaks: nginx frees little at exit; ODR: every module defines ngx_modules; the
# quarantine shows a use after free, but must not look like a memory leak in
# the tests that measure memory
ASAN_OPTIONS = \
    detect_leaks=0:abort_on_error=1:quarantine_size_mb=1:detect_odr_violation=0

# the fuzzers: both from their sources again, as coverage is measured in them
FUZZERS = build/fuzzers
FUZZ_FLAGS = -O1 -g -fno-omit-frame-pointer -DNGX_DEBUG_PALLOC=1 \
    -fsanitize=address,undefined \
    -fno-sanitize-recover=undefined \
    -fno-sanitize=nonnull-attribute,alignment,pointer-overflow
FUZZ_COVER = -fsanitize=fuzzer-no-link
FUZZ = $(basename $(notdir $(wildcard t/fuzz/target/*.c)))
FUZZ_OPTIONS = abort_on_error=1:detect_odr_violation=0
FUZZ_DIRS = t/fuzz ngx_module $(wildcard ngx_module/*/) $(FUZZERS) \
    $(addprefix $(FUZZERS)/nginx/,src/core src/event src/event/modules \
    src/os/unix src/http src/http/modules src/http/v2 objs)

COVERAGE = build/coverage
COVERAGE_FLAGS = -O0 -g -fPIC --coverage
# these tests compile parts of the module themselves
COUNTED = $(COVERAGE) build/memo build/table build/text
# the scripts, with counts of their branches
BRANCHES = build/branches
# some tests take not all of them
BRANCHES_LEFT = t/house/branches report $(BRANCHES) t/lua/branches.md \
    $(if $(filter t t/ t/lua t/lua/,$(T)),|| status=1)

all: module

help:
	@echo 'make                 build $(MODULE)'
	@echo 'make CC=clang        the same with another compiler'
	@echo 'make NGINX_SRC=dir   the same for an nginx source tree;'
	@echo '                     CONFIGURE="--with-..." adds configure options'
	@echo 'make install         to $(PREFIX), below DESTDIR'
	@echo 'make deb             the Debian package, in build/deb;'
	@echo '                     DEB_SUFFIX=+deb13 is added to its version'
	@echo 'make dist            the sources, in build/$(DIST).tar.gz'
	@echo 'make release         the same with their parts (SPDX) and checksums, in'
	@echo '                     $(RELEASE)'
	@echo 'make site            README.md and docs/ as HTML with a search, in'
	@echo '                     build/site/html'
	@echo 'make test            every test; T=t/redis one folder, T=t/redis/down.t one'
	@echo '                     file, LONG=1 the long way, J=1 one at a time,'
	@echo '                     ACL=1 as the Redis user of docs/redis.md'
	@echo 'make test-asan       the same with AddressSanitizer and UBSan, in an'
	@echo '                     nginx built from the source of the distribution'
	@echo 'make test-matrix     the same on other systems, in roots of their own, see'
	@echo '                     t/matrix/README.md'
	@echo 'make packages        the packages of packaging/ for nginx.org, RPM and Alpine,'
	@echo '                     each loaded into its nginx; NGINX_SRC, NGINX_STABLE_SRC'
	@echo '                     and HIREDIS_SRC are source trees, see packaging/README.md'
	@echo 'make proof           all that proves the module, for some hours; STAGES="asan"'
	@echo '                     some of it, see t/proof/README.md'
	@echo 'make coverage        the tests, then the lines of C and the branches of the'
	@echo '                     scripts that none of them executed; T=... as above'
	@echo 'make coverage-lua    the same for the scripts only; T=t/lua has all that'
	@echo '                     is needed'
	@echo 'make lint            static checks of all sources'
	@echo 'make fuzz            the fuzzers of t/fuzz, SECONDS=600 each; FUZZ=name one,'
	@echo '                     see t/fuzz/README.md'
	@echo 'make run             demonstration: two nodes, Redis and a backend'
	@echo '                     on this machine'
	@echo 'make demo            three nodes, Redis, a backend with a knee, Prometheus, and'
	@echo '                     scenes to choose: SCENE=burst, tenant or redis; see'
	@echo '                     packaging/demo/README.md'
	@echo 'make soak            a fleet under load and faults that follow from a seed,'
	@echo '                     and a check of its logs; SECONDS=1800 SEED=2 RATE=1, LIST=1'
	@echo '                     shows the faults only, see t/soak/README.md'
	@echo 'make bench           throughput and latency, compared with limit_conn,'
	@echo '                     HAProxy and Lua; ROUNDS=1 SECONDS=1 for a short run'
	@echo 'make bench-scale     what the scripts cost Redis, compared with the first'
	@echo '                     edition'
	@echo 'make bench-fair      what "fair=" gives to the tenants of one cap, and costs;'
	@echo '                     ROUNDS=1 SECONDS=1 for a short run'
	@echo 'make bench-auto      the limit that "limit=auto" finds; SECONDS=10 for a'
	@echo '                     short run'
	@echo 'make bench-hold      what holders of "dsem_hold" cost, and how soon the next'
	@echo '                     one has a permit; HOLDERS=100 SECONDS=1 for a short run'
	@echo 'make bench-pool      requests at a taken slot, with a limit of the total, the'
	@echo '                     same with max_conns, and a limit for each server;'
	@echo '                     ROUNDS=1 SECONDS=1 for a short run'
	@echo 'make bench-instructions'
	@echo '                     instructions that nginx executes per request'
	@echo 'make model           verify the model of the protocol, and that it misses'
	@echo '                     each mechanism that is removed, see t/model/README.md'
	@echo 'make model-limits    simulate rules that find a limit, beside that of'
	@echo '                     "limit=auto"'
	@echo 'make model-zoo       the same rules with 34 backends and traffics;'
	@echo '                     END=1: 16 others, END=last: eight more, END=walls:'
	@echo '                     20, END=rest: 14, END=errors: 18, fresh: 12,'
	@echo '                     falls: ten, below: 13, start: 12, low: 15, hang: ten;'
	@echo '                     by luajit where there is one'
	@echo 'make mutants         single changes to the sources, each of which must fail a'
	@echo '                     test; NAME=name one, J=1 one at a time, see'
	@echo '                     t/mutants/README.md'
	@echo 'make clean           remove build/'


# what is silent for long, with its last line of output meanwhile
PROGRESS = t/run/progress

# Root installs the missing packages, other users see their names.  The
# variables keep the packages from starting their services.
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
	echo "make: installing packages: $$missing"; \
	install="apt-get install -qy --no-install-recommends $$missing"; \
	$(PROGRESS) 'make: installing packages' \
	    sh -c "$$install || { apt-get update -q && $$install; }"
endef

build-needs:
	$(call need,$(BUILD_NEEDS))

test-needs:
	$(call need,$(BUILD_NEEDS) $(TEST_NEEDS))

deb-needs:
	$(call need,$(DEB_NEEDS))

asan-needs:
	$(call need,$(BUILD_NEEDS) $(TEST_NEEDS) $(ASAN_NEEDS))

coverage-needs:
	$(call need,$(BUILD_NEEDS) $(TEST_NEEDS) gcc)

lint-needs:
	$(call need,$(BUILD_NEEDS) $(LINT_NEEDS))

fuzz-needs:
	$(call need,$(BUILD_NEEDS) $(ASAN_NEEDS) $(FUZZ_NEEDS))

packages-needs:
	$(call need,$(BUILD_NEEDS) $(PACKAGES_NEEDS))

model-needs:
	$(call need,$(MODEL_NEEDS))

site-needs:
	$(call need,$(SITE_NEEDS))

limits-needs:
	$(call need,$(LIMITS_NEEDS))

run-needs:
	$(call need,$(BUILD_NEEDS) $(RUN_NEEDS))

demo-needs:
	$(call need,$(BUILD_NEEDS) $(RUN_NEEDS) $(DEMO_NEEDS))

soak-needs:
	$(call need,$(BUILD_NEEDS) $(SOAK_NEEDS))

bench-needs:
	$(call need,$(BUILD_NEEDS) $(BENCH_NEEDS))

scale-needs:
	$(call need,$(BENCH_NEEDS) git)

instructions-needs:
	$(call need,$(BUILD_NEEDS) $(BENCH_NEEDS) valgrind)


nginx-src:
	@[ -z "$(NGINX_SRC)" ] || [ -f "$(SOURCE)/auto/configure" ] \
	    || [ -f "$(SOURCE)/configure" ] || { \
	    echo "make: NGINX_SRC=$(NGINX_SRC): no nginx source tree there" \
	        "(no auto/configure or configure)" >&2; exit 1; }

# configure runs again when one of these changes; the file is replaced only then
build/settings: nginx-src build-needs FORCE
	@mkdir -p build
	@printf '%s\n' '$(CC)' '$(SOURCE)' '$(CONFIGURE)' '$(CFLAGS)' \
	    '$(CPPFLAGS)' '$(LDFLAGS)' '$(ASAN_FLAGS)' "$$(ls -l --full-time -d $(SOURCE)/src)" \
	    "$$(ls -R ngx_module)" > $@.new
	@cmp -s $@.new $@ && rm $@.new || mv $@.new $@

# conf_flags, a bash array, has the configure options of Debian's nginx; a
# source tree from the repository has its configure in auto/
build/nginx/objs/Makefile: config build/settings
	@echo "make: configuring with the nginx sources in $(SOURCE)"
	@rm -rf build/nginx
	@mkdir -p build/nginx
	@ln -s $(filter-out %/Makefile %/objs,$(wildcard $(SOURCE)/*)) build/nginx
	@cd build/nginx && bash -c 'if [ -f conf_flags ]; then . ./conf_flags; \
	    else NGX_CONF_FLAGS=(--with-compat); fi; \
	    configure=./configure; \
	    [ -f $$configure ] || configure=auto/configure; \
	    PROGRESS_LOG=configure.log $(CURDIR)/$(PROGRESS) "make: configuring" \
	        $$configure "$${NGX_CONF_FLAGS[@]}" $(CONFIGURE) \
	        --with-cc="$(CC)" \
	        --with-cc-opt="$(CFLAGS) -fPIC $(CPPFLAGS) $(WARNINGS)" \
	        --with-ld-opt="$(LDFLAGS) -fPIC" \
	        --builddir=objs --add-dynamic-module=$(CURDIR)' \
	    || { tail -n 20 configure.log; exit 1; }
	@grep -A 2 "warning: the dsem module" build/nginx/configure.log >&2 || :
	@touch $@

# configure creates it the first time
$(TABLE): build/nginx/objs/Makefile lua/embed.awk $(wildcard lua/*.lua \
    lua/include/*.lua)
	@awk -v dir=lua -f lua/embed.awk $(SCRIPTS) > $@.new
	@mv $@.new $@

$(PAGE): build/nginx/objs/Makefile ngx_module/http/page.awk \
    ngx_module/http/page.html
	@$(EMBED_PAGE) > $@.new
	@mv $@.new $@

# of all processors, unless this make was told how many
module: $(TABLE) $(PAGE)
	@$(PROGRESS) 'make: compiling' \
	    $(MAKE) -s $(if $(filter --jobserver%,$(MAKEFLAGS)),,-j$$(nproc)) \
	    -C build/nginx -f objs/Makefile modules
	@cmp -s build/nginx/objs/$(notdir $(MODULE)) $(MODULE) || { \
	    cp --remove-destination build/nginx/objs/$(notdir $(MODULE)) \
	        $(MODULE) && echo "make: built $(MODULE)"; }

install: module
	install -d $(DESTDIR)$(PREFIX)
	install -m 644 $(MODULE) $(DESTDIR)$(PREFIX)

# What git knows, or all but build/ in a tree that is no checkout.  The same
# tree gives the same bytes, in a file that is complete or not there.
dist:
	@mkdir -p build
	@set -e; new=build/$(DIST).$$$$; \
	trap "rm -f $$new.files $$new.tar.gz" EXIT; \
	if [ -e .git ] && git rev-parse HEAD > /dev/null 2>&1; then \
	    git ls-files; \
	else \
	    find . -name .git -prune -o -path ./build -prune \
	        -o -type f -printf '%P\n'; \
	fi | LC_ALL=C sort > $$new.files; \
	tar -c -I 'gzip -9n' -f $$new.tar.gz -T $$new.files \
	    --transform 's,^,$(DIST)/,' --mode=a+rX,u+w,go-w \
	    --owner=0 --group=0 --numeric-owner --mtime="$$(sed -n \
	        's/^ -- .*>  //p' debian/changelog | head -n 1)"; \
	mv $$new.tar.gz build/$(DIST).tar.gz
	@echo "make: built build/$(DIST).tar.gz"

# The same sources give the same bytes.
release: dist
	@rm -rf $(RELEASE)
	@mkdir -p $(RELEASE)
	@cp build/$(DIST).tar.gz $(RELEASE)
	@cd $(RELEASE) && $(CURDIR)/packaging/release/sbom $(DIST).tar.gz \
	    > $(DIST).spdx.json && sha256sum $(DIST).* > SHA256SUMS
	@echo "make: built $(RELEASE)/$(DIST).tar.gz"

# in a copy, with an environment of its own: debian/rules is another build
deb: deb-needs dist
	@rm -rf build/deb
	@mkdir -p build/deb
	@tar -xzf build/$(DIST).tar.gz -C build/deb
	@sed -i '1s/)/$(DEB_SUFFIX))/' build/deb/$(DIST)/debian/changelog
	@cd build/deb/$(DIST) && PROGRESS_LOG=../log $(CURDIR)/$(PROGRESS) \
	    'make: building the package' \
	    env -u MAKEFLAGS -u MAKELEVEL -u CC -u CFLAGS -u PROGRESS_LOG \
	    dpkg-buildpackage -us -uc || { tail -n 20 ../log; exit 1; }
	@rm -r build/deb/$(DIST)
	@echo "make: built $$(ls build/deb/*.deb | grep -v dbgsym)"

# by mkdocs; any web server can serve the directory
site: site-needs
	@docs/site/build build/site
	@echo "make: built build/site/html"

# prove passes where it finds no test
test-files:
	@for name in $(T); do \
	    find "$$name" -name '*.t' 2>/dev/null | grep -q . && continue; \
	    echo "make: T=$$name: no such test file or folder" >&2; exit 1; \
	done

# the versions are exact: those of package-lock.json
$(BROWSER_MODULES): t/page/package.json t/page/package-lock.json | test-needs
	@rm -rf build/page
	@mkdir -p build/page
	@cp $^ build/page
	@echo "make: installing packages of npm in build/page"
	@output=$$(cd build/page && npm ci --no-audit --no-fund \
	    --cache ../npm 2>&1) || { echo "$$output" >&2; exit 1; }

# the harness class knows the order, and when the machine stalled
PROVE = PERL5LIB=t/lib prove --harness Dsem::Suite -r --timer -j$(J) -It/lib

test-page-needs: $(BROWSER_MODULES)

test: test-files test-needs module $(if $(NPM),$(BROWSER_MODULES))
	@DSEM_LONG=$(LONG) DSEM_ACL=$(ACL) $(PROVE) $(T)

$(ASAN)/nginx/configure $(ASAN)/hiredis/Makefile:
	@mkdir -p $(ASAN)
	@t/package/source $(ASAN) $(notdir $(@D)) > $(@D).log 2>&1 \
	    || { cat $(@D).log; exit 1; }

$(ASAN)/hiredis/libhiredis.a: build/settings $(ASAN)/hiredis/Makefile
	@$(MAKE) -s -C $(@D) clean
	@$(MAKE) -s -C $(@D) static USE_SSL=1 CC="$(CC)" OPTIMIZATION= \
	    DEBUG_FLAGS= CFLAGS="$(ASAN_FLAGS) -fPIC -w" > $(@D).log

$(ASAN)/nginx/objs/Makefile: config build/settings $(ASAN)/nginx/configure \
    $(ASAN)/hiredis/libhiredis.a
	@cd $(ASAN)/nginx && bash -c '. /usr/share/nginx/src/conf_flags; \
	    ./configure "$${NGX_CONF_FLAGS[@]}" --with-cc="$(CC)" \
	        --with-cc-opt="$(ASAN_FLAGS) $(WARNINGS) -I$(CURDIR)/$(ASAN)" \
	        --with-ld-opt="$(ASAN_FLAGS) -L$(CURDIR)/$(ASAN)/hiredis" \
	        --add-dynamic-module=$(CURDIR)' \
	    > configure.log 2>&1 || { tail -n 20 configure.log; exit 1; }

$(ASAN)/nginx/objs/ngx_http_dsem_scripts.c: $(ASAN)/nginx/objs/Makefile \
    lua/embed.awk $(wildcard lua/*.lua lua/include/*.lua)
	@awk -v dir=lua -f lua/embed.awk $(SCRIPTS) > $@.new
	@mv $@.new $@

$(ASAN)/nginx/objs/ngx_http_dsem_page.c: $(ASAN)/nginx/objs/Makefile \
    ngx_module/http/page.awk ngx_module/http/page.html
	@$(EMBED_PAGE) > $@.new
	@mv $@.new $@

asan: asan-needs $(ASAN)/nginx/objs/ngx_http_dsem_scripts.c \
    $(ASAN)/nginx/objs/ngx_http_dsem_page.c
	@$(MAKE) -s -C $(ASAN)/nginx -f objs/Makefile binary modules

test-asan: test-files asan $(if $(NPM),$(BROWSER_MODULES))
	@DSEM_NGINX=$(CURDIR)/$(ASAN)/nginx/objs/nginx \
	    DSEM_MODULE=$(CURDIR)/$(ASAN)/nginx/objs/$(notdir $(MODULE)) \
	    ASAN_OPTIONS=$(ASAN_OPTIONS) UBSAN_OPTIONS=print_stacktrace=1 \
	    DSEM_TIME_FACTOR=3 DSEM_LONG=$(LONG) \
	    $(PROVE) $(T)

lint: lint-needs module
	@t/house/lint build/nginx

# the configured tree once more, without optimization; processes write their
# counts beside the objects when they exit
$(COVERAGE)/nginx/objs/Makefile: build/nginx/objs/Makefile
	@rm -rf $(COVERAGE)
	@mkdir -p $(COVERAGE)
	@cp -a build/nginx $(COVERAGE)
	@rm -f $(@D)/addon/*/*.o $(@D)/*.o $(@D)/*.so
	@touch $@

# beside the scripts the list of their branches, and of those that were taken
$(BRANCHES)/branches: t/house/branches t/lib/Dsem/Branches.pm \
    $(wildcard lua/*.lua lua/include/*.lua)
	@t/house/branches count lua $(@D)

coverage-module: coverage-needs $(PAGE) $(BRANCHES)/branches \
    $(COVERAGE)/nginx/objs/Makefile
	@cp -u $(PAGE) $(COVERAGE)/nginx/objs
	@awk -v dir=$(BRANCHES) -f lua/embed.awk $(SCRIPTS) > $(BRANCHES)/table
	@cp -u $(BRANCHES)/table $(COVERAGE)/nginx/objs/$(notdir $(TABLE))
	@$(MAKE) -s -C $(COVERAGE)/nginx -f objs/Makefile modules \
	    CFLAGS="-pipe $(COVERAGE_FLAGS)" LINK="$(CC) --coverage"

# a test that fails still covers
coverage: test-files coverage-module $(if $(NPM),$(BROWSER_MODULES))
	@mkdir -p build/memo build/table build/text
	@find $(COUNTED) -name '*.gcda' -delete
	@rm -rf $(BRANCHES)/taken
	@DSEM_LUA=$(CURDIR)/$(BRANCHES) \
	    DSEM_MODULE=$(CURDIR)/$(COVERAGE)/nginx/objs/$(notdir $(MODULE)) \
	    DSEM_CFLAGS='--coverage -O0' DSEM_TIME_FACTOR=3 DSEM_LONG=$(LONG) \
	    $(PROVE) $(T); status=$$?; \
	    t/house/coverage ngx_module t/house/coverage.reasons \
	        $(if $(filter t t/,$(T)),1,0) $(COUNTED) || status=1; \
	    $(BRANCHES_LEFT); exit $$status

coverage-lua: test-files coverage-module
	@rm -rf $(BRANCHES)/taken
	@DSEM_LUA=$(CURDIR)/$(BRANCHES) \
	    DSEM_MODULE=$(CURDIR)/$(COVERAGE)/nginx/objs/$(notdir $(MODULE)) \
	    DSEM_TIME_FACTOR=3 DSEM_LONG=$(LONG) \
	    $(PROVE) $(T); status=$$?; \
	    $(BRANCHES_LEFT); exit $$status

# hiredis 0.14 adds 2 to the length of a string before it looks at it
$(FUZZERS)/hiredis/libhiredis.a: build/settings $(ASAN)/hiredis/Makefile
	@mkdir -p $(FUZZERS)
	@rm -rf $(@D)
	@cp -rL $(ASAN)/hiredis $(@D)
	@$(MAKE) -s -C $(@D) clean
	@$(MAKE) -s -C $(@D) static CC=clang OPTIMIZATION= DEBUG_FLAGS= \
	    CFLAGS="$(FUZZ_FLAGS) $(FUZZ_COVER) \
	    -fno-sanitize=signed-integer-overflow -fPIC -w" > $(@D).log

# a small nginx with the module linked in
$(FUZZERS)/nginx/objs/Makefile: config build/settings \
    $(ASAN)/nginx/configure $(FUZZERS)/hiredis/libhiredis.a
	@rm -rf $(FUZZERS)/nginx
	@mkdir -p $(FUZZERS)/nginx
	@ln -s $(filter-out %/Makefile %/objs,$(abspath \
	    $(wildcard $(ASAN)/nginx/*))) $(FUZZERS)/nginx
	@cd $(FUZZERS)/nginx && ./configure --with-cc=clang --without-pcre \
	    --without-http_rewrite_module --without-http_gzip_module \
	    --with-cc-opt="$(FUZZ_FLAGS) $(FUZZ_COVER) $(WARNINGS) \
        -I$(CURDIR)/$(FUZZERS)" \
	    --with-ld-opt="$(FUZZ_FLAGS) -L$(CURDIR)/$(FUZZERS)/hiredis" \
	    --builddir=objs --add-module=$(CURDIR) \
	    > configure.log 2>&1 || { tail -n 20 configure.log; exit 1; }

# nginx has a main() of its own
$(FUZZERS)/libnginx.a: $(FUZZERS)/nginx/objs/Makefile FORCE
	@$(MAKE) -s -C $(FUZZERS)/nginx -f objs/Makefile binary
	@cd $(FUZZERS)/nginx/objs && [ ../../libnginx.a -nt nginx ] || { \
	    objcopy --redefine-sym main=nginx_main src/core/nginx.o \
	        ../../nginx.o && \
	    rm -f ../../libnginx.a && \
	    ar rcs ../../libnginx.a ../../nginx.o \
	        $$(find . -name '*.o' ! -name nginx.o); }

# what a target includes of the module takes the place of that in the archive
$(FUZZERS)/%: t/fuzz/target/%.c $(wildcard t/fuzz/*.[ch]) $(FUZZERS)/libnginx.a
	@clang -D_GNU_SOURCE $(FUZZ_FLAGS) -fsanitize=fuzzer $(WARNINGS) \
	    $(addprefix -I,$(FUZZ_DIRS)) $< $(addprefix t/fuzz/,target.c \
	    $(if $(filter guard,$*),connection.c reply.c)) \
	    $(FUZZERS)/libnginx.a -L$(FUZZERS)/hiredis -l:libhiredis.a \
	    -lcrypt -o $@

fuzz: fuzz-needs $(addprefix $(FUZZERS)/,$(FUZZ))
	@cd $(FUZZERS) && for name in $(FUZZ); do \
	    mkdir -p corpus/$$name found && \
	    ASAN_OPTIONS=$(FUZZ_OPTIONS) UBSAN_OPTIONS=print_stacktrace=1 \
	    ./$$name corpus/$$name $(CURDIR)/t/fuzz/corpus/$$name \
	        -dict=$(CURDIR)/t/fuzz/target/$$name.dict -max_len=4096 \
	        -max_total_time=$(or $(SECONDS),600) -timeout=10 \
	        -print_final_stats=1 -artifact_prefix=found/$$name- || exit 1; \
	done

test-matrix: test-files
	@MATRIX='$(MATRIX)' T='$(T)' VALKEY_T='$(VALKEY_T)' FORK_T='$(FORK_T)' \
	    J='$(J)' NGINX_SRC='$(NGINX_SRC)' ANGIE_SRC='$(ANGIE_SRC)' \
	    OPENRESTY_SRC='$(OPENRESTY_SRC)' MUSL_T='$(MUSL_T)' \
	    NGINX_STABLE_SRC='$(NGINX_STABLE_SRC)' HIREDIS_SRC='$(HIREDIS_SRC)' \
	    t/matrix/matrix $(SYSTEMS)

packages: packages-needs test-needs
	@MATRIX='$(MATRIX)' NGINX_SRC='$(NGINX_SRC)' HIREDIS_SRC='$(HIREDIS_SRC)' \
	    NGINX_STABLE_SRC='$(NGINX_STABLE_SRC)' t/package/packages

# some hours
proof: test-needs
	@MATRIX='$(MATRIX)' NGINX_SRC='$(NGINX_SRC)' ANGIE_SRC='$(ANGIE_SRC)' \
	    NGINX_STABLE_SRC='$(NGINX_STABLE_SRC)' HIREDIS_SRC='$(HIREDIS_SRC)' \
	    OPENRESTY_SRC='$(OPENRESTY_SRC)' NGINX_TESTS='$(NGINX_TESTS)' \
	    J='$(J)' t/proof/proof $(STAGES)

run: run-needs module
	@perl -It/lib t/run/fleet.pl

demo: demo-needs module
	@perl -It/lib t/run/demo.pl

soak: soak-needs module
	@SECONDS=$(SECONDS) SEED=$(SEED) RATE=$(RATE) LIST=$(LIST) \
	    perl -It/lib t/soak/soak.pl

bench: bench-needs module
	@ROUNDS=$(ROUNDS) SECONDS=$(SECONDS) WORKERS=$(WORKERS) \
	    perl -It/lib t/bench/bench.pl

bench-scale: scale-needs
	@ROUNDS=$(ROUNDS) SCALE=$(SCALE) EDITION=$(EDITION) \
	    perl -It/lib t/bench/scale.pl

bench-fair: run-needs module
	@ROUNDS=$(ROUNDS) SECONDS=$(SECONDS) perl -It/lib t/bench/fair.pl

bench-auto: run-needs module
	@SECONDS=$(SECONDS) perl -It/lib t/bench/auto.pl

bench-hold: run-needs module
	@HOLDERS=$(HOLDERS) SECONDS=$(SECONDS) ROUNDS=$(ROUNDS) \
	    perl -It/lib t/bench/hold.pl

bench-pool: run-needs module
	@ROUNDS=$(ROUNDS) SECONDS=$(SECONDS) perl -It/lib t/bench/pool.pl

bench-instructions: instructions-needs module
	@perl -It/lib t/bench/instructions.pl

model: model-needs
	@J=$(J) t/model/check

model-limits: limits-needs
	@t/model/limits

model-zoo: limits-needs
	@SORT=1 $$(command -v luajit || command -v lua5.1) t/model/zoo \
	    $(if $(END),$(or $(filter last walls rest errors fresh falls below \
	    start low hang,$(END)),end))

mutants: test-needs
	@J=$(J) NGINX_SRC='$(abspath $(NGINX_SRC))' t/mutants/run $(NAME)

clean:
	rm -rf build

FORCE:

.DELETE_ON_ERROR:
.PHONY: nginx-src
.PHONY: all help build-needs test-needs asan-needs lint-needs limits-needs \
    coverage-needs fuzz-needs run-needs demo-needs bench-needs scale-needs soak-needs \
    instructions-needs module install test-files test asan test-asan \
    coverage-module coverage coverage-lua lint fuzz test-matrix packages \
    packages-needs model \
    model-needs site site-needs model-limits model-zoo mutants proof test-page-needs dist release deb \
    deb-needs run demo soak bench bench-scale bench-fair bench-auto \
    bench-hold bench-pool bench-instructions clean
