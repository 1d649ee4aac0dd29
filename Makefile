# workq: a durable, fair work queue for PostgreSQL
#
#   make                build the library
#   make install        install it into the server that pg_config names
#   make check          all tests, in private clusters: nothing is installed into
#                       the system but missing packages (make deps)
#   make check-SUITE    one suite: unit, regress, isolation, tap, pgtap;
#                       TESTS="a b" runs only these
#   make demo           see it work
#   make lint           static checks
#   make indent         format the sources
#   make symbols        check what the library exports
#   make clean          remove everything that was built or run
#
# test/README.md says more about tests, "scripts/cluster help" about private
# clusters.  PG_CONFIG= chooses the server, COPT= adds compiler flags, an empty
# WERROR= lets warnings pass.

PG_CONFIG ?= pg_config
export PG_CONFIG

.DEFAULT_GOAL := all

SUITES = unit regress isolation tap pgtap
SUITE_GOALS = $(SUITES:%=check-%)
SCRIPTED = deps check $(SUITE_GOALS) demo lint

ifneq (,$(filter $(SCRIPTED),$(MAKECMDGOALS)))

# Goals that install what is missing first, so PGXS may not be there yet; and
# PGXS has a "check" of its own that only says it is not supported.

BUILD = @$(MAKE) -s --no-print-directory

.PHONY: $(MAKECMDGOALS)

deps:
	@scripts/deps

check:
	@scripts/deps check
	$(BUILD) all symbols
	@scripts/check $(SUITES)

$(SUITE_GOALS): check-%:
	@scripts/deps check
	$(BUILD) all
	@scripts/suite $* $(TESTS)

demo:
	@scripts/deps demo
	$(BUILD) all
	@demo/run

lint:
	@scripts/deps lint
	$(BUILD) lint-sources

# Goals given beside these.
$(filter-out $(SCRIPTED),$(MAKECMDGOALS)):
	@$(MAKE) --no-print-directory $@

else

MODULE_big = workq
EXTENSION = workq
DATA = $(sort $(wildcard sql/workq--*.sql))
SOURCES = $(sort $(wildcard src/*.c))
OUR_HEADERS = $(sort $(wildcard src/*.h))
OBJS = $(SOURCES:.c=.o)
PGFILEDESC = "workq - durable, fair work queue"

# Bitcode for the server's JIT compiler is of no use to C functions like ours.
override with_llvm = no

MAP = build/workq.map
SHLIB_LINK = -Wl,--version-script=$(MAP)

# The style guide's warnings, for our code and not for the server's headers.
WERROR = -Werror
WARNINGS = -Wall -Wextra -Wno-unused-parameter -Wno-sign-compare -Wshadow \
	-Wmissing-prototypes -Wold-style-definition \
	-Wdeclaration-after-statement -Wvla -Wformat=2 -Wnull-dereference \
	-Wduplicated-cond -Wduplicated-branches -Wlogical-op \
	-Wjump-misses-init -Wnested-externs -Wunused-macros
PG_CPPFLAGS = -isystem $(shell $(PG_CONFIG) --includedir-server)
PG_CFLAGS = $(WARNINGS) $(WERROR)

EXTRA_CLEAN = build

PGXS := $(shell $(PG_CONFIG) --pgxs 2>/dev/null)
ifeq (,$(wildcard $(PGXS)))
$(error no PostgreSQL server headers: run "make deps", or set PG_CONFIG)
endif
include $(PGXS)

# The server's packages are built without dependency tracking.
$(OBJS): $(OUR_HEADERS) Makefile

# Exported: what the server looks up by name, and nothing else.  Made anew each
# time, replaced when different: PGXS declares all files .SECONDARY, so that make
# would not miss it.
$(MAP): force
	@mkdir -p $(@D)
	@scripts/version-script $(SOURCES) >$@.new
	@cmp -s $@.new $@ && rm $@.new || mv $@.new $@

$(shlib): $(MAP)

# The library with its locks timed, for "bench/run locks".
LOCKTIME = build/bench/locktime
$(LOCKTIME)/workq.so: bench/locktime.c $(OBJS) $(MAP)
	@mkdir -p $(@D)
	$(COMPILE.c) -o $(@D)/locktime.o $<
	$(LINK.shared) -o $@ $(OBJS) $(@D)/locktime.o $(LDFLAGS) $(LDFLAGS_SL) \
		$(SHLIB_LINK) -Wl,--wrap=LWLockAcquire,--wrap=LWLockRelease

.PHONY: force symbols lint-sources indent clean-run

symbols: all
	@scripts/symbols $(shlib) $(MAP) $(DATA)

lint-sources: symbols
	@CC='$(CC)' CFLAGS='$(CFLAGS)' CPPFLAGS='$(CPPFLAGS)' \
		scripts/lint $(SOURCES)

indent: all
	@scripts/indent $(SOURCES) $(OUR_HEADERS)

# Consumers for "bench/run wait".
WAITERS = build/bench/waiters
$(WAITERS): bench/waiters.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -I$(shell $(PG_CONFIG) --includedir) -o $@ $< \
		-L$(shell $(PG_CONFIG) --libdir) -lpq

clean: clean-run

clean-run:
	@scripts/clean-run

endif
