# Two commands matter: `make demo` and `make test`. The rest is below them.
PREFIX ?= /usr/local
BUILD  ?= build
# Relative to PREFIX; the libraries stay apart from the system's own.
LIBDIR ?= lib/verbena
# ninja with a target of meson.build, or without one: everything, tests included.
NINJA   = ninja -C $(BUILD) $(NINJAFLAGS)

.PHONY: all everything deps configure demo test test-arm64 conformance sim sim-scale adversary torture \
	ecosystem fuzz interop bench install uninstall deb rpm container reproducible test-install test-packages clean

# All but the tests.
all: configure
	@$(NINJA) product

everything: configure
	@$(NINJA)

deps:
	@BUILD="$(BUILD)" scripts/deps

configure: $(BUILD)/build.ninja

$(BUILD)/build.ninja:
	@meson setup "$(BUILD)" --prefix "$(PREFIX)" --libdir "$(LIBDIR)" $(MESONFLAGS)

demo:
	@BUILD="$(BUILD)" scripts/deps demo
	@$(MAKE) --no-print-directory configure
	@$(NINJA) demo
	@scripts/demo

test: deps
	@$(MAKE) --no-print-directory everything
	@tests/run

# A cross build, and tests in an emulated CPU.
test-arm64:
	@tests/arm64/run

# rdma-core's own test suite, unmodified, on both paths, as root and as an ordinary user.
conformance: deps
	@$(MAKE) --no-print-directory all
	@tests/conformance/run --verbena $(BUILD)/verbena

# Longer campaigns, with a budget of time.
SECONDS ?= 60

sim: deps
	@$(MAKE) --no-print-directory configure
	@$(NINJA) tests/sim/sim tests/cm/cm-sim
	@$(BUILD)/tests/sim/sim --seeds tests/sim/seeds/past --seed $$(date +%s)000 --seconds $(SECONDS)
	@$(BUILD)/tests/sim/sim --lanes 3 --seed 1$$(date +%s)000 --seconds $(SECONDS)
	@$(BUILD)/tests/cm/cm-sim --seeds tests/cm/seeds/past --seed $$(date +%s)000 --seconds $(SECONDS)
	@$(BUILD)/tests/cm/cm-sim --seed 1$$(date +%s)00000000 --seconds $(SECONDS)

# Many hosts on one switch: a table, and a plot of it.
sim-scale: deps
	@$(MAKE) --no-print-directory configure
	@$(NINJA) tests/sim_scale/sim-scale
	@tests/sim_scale/run $(BUILD) $(SECONDS)

# Programs with a mistake, their right twins, the contract suite and real clients under many seeds.
adversary: deps
	@$(MAKE) --no-print-directory everything
	@tests/adversary/run $(BUILD) $(SECONDS)

# Regions that move beside threads which do to the memory what programs do.
torture: deps
	@$(MAKE) --no-print-directory configure
	@$(NINJA) tests/chaos/torture_map tests/chaos/chaos_map
	@timeout $$(($(SECONDS) * 20)) $(BUILD)/tests/chaos/torture_map -n $$(($(SECONDS) * 20)) -f 50
	@timeout $$(($(SECONDS) * 20)) $(BUILD)/tests/chaos/torture_map -n $$(($(SECONDS) * 20)) -f 50 -u

# What people run on verbs, unmodified: MPI, UCX, perftest and others; over memory, the wire, and
# between two hosts. mpich and the compilers of both MPIs are not among the dependencies.
ecosystem: deps
	@$(MAKE) --no-print-directory everything
	@tests/ecosystem/run --build $(BUILD)

fuzz: deps
	@tests/fuzz/run $(SECONDS)

# A kernel's Soft-RoCE as the peer, in an emulated machine.
interop: deps
	@$(MAKE) --no-print-directory everything
	@tests/interop/run

bench: deps
	@$(MAKE) --no-print-directory all
	@bench/local
	@bench/wire
	@bench/connect

# The build is told first where it goes: the list of what is installed is made with it.
install: configure
	@meson configure "$(BUILD)" -Dprefix="$(PREFIX)" -Dlibdir="$(LIBDIR)" >/dev/null
	@$(NINJA) product
	@meson install -C "$(BUILD)" --no-rebuild
	@scripts/installed keep "$(BUILD)"

# Removes the files and folders that `make install` of this build folder made below PREFIX.
uninstall:
	@scripts/installed remove "$(BUILD)" "$(DESTDIR)$(PREFIX)" \
		$(if $(filter /%,$(LIBDIR)),"$(DESTDIR)$(LIBDIR)")

deb:
	@packaging/build deb

rpm:
	@packaging/build rpm

container:
	@packaging/build container

# Two builds in different circumstances have the same bytes.
reproducible:
	@tests/packages/reproducible

# Libraries in various folders: the programs find them, and nothing is left of them.
test-install:
	@tests/packages/install

# Packages of `make deb` in a fresh system, as root: ROOT is a tar file of one.
test-packages:
	@tests/packages/installed $(ROOT)

clean:
	@rm -rf $(BUILD) build-*
