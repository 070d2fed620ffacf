# make run    set up .venv and start nftop on a simulated host
# make live   the same on this host
# make test   set up and pass the tests
# make stress the tests again and again, in random order, some of the time beside a load
# make check  what CI runs: format, lint, types, layers, documentation, tests
# make docs   the documentation, into build/docs
# make lab    a shell on a virtual Xeon, with perf, resctrl and nftop; as root (LAB='--model icx')
# make wheel  dist/*.whl, with manual pages and completions; make deb: dist/*.deb, with systemd units
# sudo make install   nftop for every user and for sudo: /opt/nftop and /usr/local/bin/nftop

VENV := .venv
PREFIX ?= /opt/nftop
BINDIR ?= /usr/local/bin
SHAREDIR ?= /usr/local/share
# Where `make newer-dpdk` keeps its Debian: root runs programs of it, so only root may write there.
NEWER ?= /var/cache/nftop-tests/trixie
# The folders where `make newer-ovs` keeps its Debians begin with this.
NEWER_OVS ?= /var/cache/nftop-tests/ovs
# Where the tests' Prometheus is unpacked: installed, it would be started as a service.
PROMETHEUS ?= $(CURDIR)/build/prometheus
# And OpenSSH's server, for the same reason.
SSHD ?= $(CURDIR)/build/sshd
# The Debian or Ubuntu of deb-check, units-check and install-check, one or more: bookworm, trixie, noble.
RELEASE ?= bookworm
# Where these are debootstrapped.
DEBIAN ?= build/debian
# And `make lab-sid` its own Debian.
SID ?= /var/cache/nftop-tests/sid
# The first Python that is new enough; PYTHON=... chooses another.
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
  command -v $$p >/dev/null && $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && \
  { command -v $$p; break; }; done)
BIN := $(VENV)/bin
# Real parts the tests run against; without them those tests are skipped, with the reason.
# Where services start when they are installed, Open vSwitch's does, with no bridge.
TEST_PACKAGES := dpdk-dev fish fuse3 intel-cmt-cat linux-perf mandoc openvswitch-switch \
  openvswitch-switch-dpdk pcm perl strace tmux zsh zstd
READY := $(VENV)/.ready
# What tells a folder that `make install` made from any other.
MARK := .nftop-installed
# How many tests at once. What measures this machine or binds its CPUs comes after them, alone.
JOBS ?= 4
# Python is started some thousand times by them, and is to keep what it has compiled.
PYTEST := env -u PYTHONDONTWRITEBYTECODE NFTOP_PROMETHEUS=$(PROMETHEUS)/usr/bin NFTOP_SSHD=$(SSHD) $(BIN)/pytest -q --durations=15
# Both halves, the second even if the first has failures, and one line of totals.
SUITE := NFTOP_PROMETHEUS=$(PROMETHEUS)/usr/bin NFTOP_SSHD=$(SSHD) $(BIN)/python -m tests.suite --jobs $(JOBS)

.PHONY: run live lab test check release stress coverage bench bench-memory fleet-bench fleet-ssh history experiments faults soak endurance observer screenshots film docs wheel audit deb deb-release deb-check units-check install-check chromium install uninstall newer-dpdk newer-ovs lab-sid lab-big lab-series matrix kills prometheus test-packages test-prometheus clean
.DEFAULT_GOAL := run

run: $(READY)
	@$(BIN)/nftop demo

live: $(READY)
	@$(BIN)/nftop

test: $(READY) test-packages test-prometheus
	@$(SUITE)

# The whole suite again and again in random order, the last HOGGED runs beside HOGS programs that use
# all CPU time they get: finds tests that fail now and then.
RUNS ?= 10
HOGS ?= 8
HOGGED ?= 3

stress: $(READY) test-packages test-prometheus
	@$(SUITE) --runs $(RUNS) --hogs $(HOGS) --hogged $(HOGGED) --shuffle

check: $(READY) test-packages test-prometheus
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(SPHINX)
	$(SUITE)

# Any warning is an error: a link between pages that leads nowhere, a page in no table of contents.
SPHINX = $(BIN)/python -m sphinx --fail-on-warning --keep-going --quiet -b html docs build/docs

docs: $(READY)
	$(SPHINX)
	@echo build/docs/index.html

# Apart from `check`, which it would make a quarter longer.
coverage: $(READY) test-packages test-prometheus
	$(PYTEST) -n $(JOBS) -m "not alone" --cov --cov-report=
	$(PYTEST) -m alone --cov --cov-append --cov-report=term

# Where nftop and the usual tools can be tried as on a server.
# A Cascade Lake has all of resctrl; Skylake (skx-4) shows none of the cache without --rdt.
LAB ?= --model skx-7

lab: $(READY) test-packages
	@echo "the lab: a virtual host ($(LAB)); files are this machine's, exit leaves"
	@echo "events that it doesn't know count 0: cat /sys/fs/lab/live/ctl/unknown"
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m tests.lab $(LAB) -- $${SHELL:-/bin/sh}

# Everything that is too long for `check`, with a report of what ran and what was skipped: hours. As root.
release: $(READY)
	@$(BIN)/python -m tests.release

# Inputs that no honest program writes, for everything that nftop reads; adds to
# tests/fuzz/counts.json. One process at nice 19.
SECONDS ?= 600

soak: $(READY)
	@$(BIN)/pip install --quiet --disable-pip-version-check -e '.[fuzz]' || \
	  echo "atheris can't be installed, so inputs are made at random"
	@$(BIN)/python -m tests.fuzz.soak --seconds $(SECONDS)

# Sources that are killed, hang, are slow, lie or restart: every pair. Some minutes.
faults: $(READY)
	@$(BIN)/python -m tests.faults
	@NFTOP_FAULT_PAIRS=all $(BIN)/pytest -q --no-cov tests/test_fault_peers.py

# What nftop costs, beside its targets. ONLY=start,threads runs some sections, ONLY=list names them.
bench: $(READY)
	@$(BIN)/python -m tests.bench $(ONLY)

# Resident memory over simulated hours, for each half hour. Ten minutes.
HOURS ?= 8

bench-memory: $(READY)
	@$(BIN)/python -m tests.bench.memory $(HOURS) 88

# What 1,000 simulated hosts cost a real Prometheus, and the screen that reads it. Three minutes.
FLEET_SECONDS ?= 150

fleet-bench: $(READY) test-prometheus
	@NFTOP_PROMETHEUS=$(PROMETHEUS)/usr/bin $(BIN)/python -m tests.bench.fleet $(FLEET_SECONDS)

# What a polling core of testpmd and of OVS loses while nftop, htop, btop, perf or PCM look on, by turns:
# half an hour each with 40 rounds. As root.
ROUNDS ?= 40

observer: TEST_PACKAGES += btop htop
observer: $(READY) test-packages
	@$(BIN)/python -m tests.bench.observer $(ROUNDS)

# The screen at 10 Hz beside testpmd in real time: memory, descriptors, threads, lost ticks; as root.
MINUTES ?= 60

endurance: $(READY) test-packages
	@$(BIN)/python -m tests.bench.endurance $(MINUTES)

# Pictures of the demo, by stepping its clock.
screenshots: $(READY)
	@$(BIN)/python -m screenshots.take

# The README's animation: the demo's noisy neighbour found and fixed, as a cast (asciinema play) and,
# made of that, as an SVG.
film: $(READY)
	@$(BIN)/python -m screenshots.cast build/found-and-fixed.cast screenshots/found-and-fixed.svg

# A newer DPDK from a debootstrapped Debian, whose own cycles per packet are the oracle.
newer-dpdk: $(READY)
	@NFTOP_NEWER=$(NEWER) $(BIN)/pytest -q -m newer -s tests/real

# OVS 3.5 and 4.0 from debootstrapped Debians; their own counters are the oracle. As root.
newer-ovs: $(READY)
	@NFTOP_NEWER_OVS=$(NEWER_OVS) $(BIN)/pytest -q -m newer -s tests/real/test_newer_ovs.py

# Sweeps on the rates of the simulated host, whose best mask is known: 200 of them, and 1000 without any
# effect. Some minutes.
experiments: $(READY)
	@$(BIN)/python -m tests.bench.experiments

# The questions of docs/history.md, asked of a week of three simulated hosts with a sample each
# WEEK_S seconds: with 60 half an hour.
WEEK_S ?= 60

history: $(READY)
	@NFTOP_WEEK_S=$(WEEK_S) $(BIN)/pytest -q --no-cov tests/docs/test_history_page.py

# The kernel's own Python module for perf, which only a newer Debian has: nftop counts with it, on
# this host and in the lab. As root.
lab-sid: $(READY) test-packages
	@NFTOP_SID=$(SID) $(BIN)/pytest -q -m sid -s tests/real

# Apply, keep and undo on the screen of nftop, in a lab of 512 CPUs: some minutes. As root.
lab-big: $(READY) test-packages
	@NFTOP_BIG=1 $(BIN)/pytest -q -m big tests/lab/tests/test_many_cpus.py

# Every combination of machine, kernel and mode; of some tests CI runs a part. As root.
matrix: $(READY) test-packages
	@NFTOP_MATRIX=1 $(BIN)/pytest -q -n $(JOBS) -m matrix tests

# Guards of sweeps that are killed 200 times, each kernel with and without CDP: half an hour. As root.
lab-series: $(READY) test-packages
	@NFTOP_MATRIX=1 NFTOP_SERIES_KILLS=200 $(BIN)/pytest -q --no-cov tests/lab/tests/test_series.py

# Changes of every kind, while nftop, its guard or both are killed at random moments. As root.
KILLS ?= 1000

kills: $(READY) test-packages
	@NFTOP_KILLS=$(KILLS) $(BIN)/pytest -q -s --no-cov tests/lab/tests/test_kills.py

# Reports in a real browser, on screen and on paper.
chromium: TEST_PACKAGES += chromium poppler-utils
chromium: $(READY) test-packages
	@$(BIN)/pytest -q --no-cov tests/export/test_report.py

# Debian's Prometheus, 19 MB, unpacked and not installed: it scrapes nftop and answers queries.
prometheus: $(READY) test-prometheus
	@$(PYTEST) --no-cov tests/export/http/test_real_prometheus.py

test-prometheus:
	@test -x $(PROMETHEUS)/usr/bin/prometheus || { mkdir -p $(PROMETHEUS) && cd $(PROMETHEUS) && \
	  apt-get download -qq -o APT::Sandbox::User=root prometheus && dpkg -x prometheus_*.deb . && rm prometheus_*.deb; } || \
	  echo "no Prometheus could be fetched, so the tests that need it are skipped"

# The fleet screen's hosts over OpenSSH's own server, unpacked and not installed; as root.
fleet-ssh: $(READY)
	@test -x $(SSHD)/usr/sbin/sshd || { mkdir -p $(SSHD) && cd $(SSHD) && \
	  apt-get download -qq -o APT::Sandbox::User=root openssh-server libwrap0 && \
	  for deb in *.deb; do dpkg -x "$$deb" . || exit; done && rm *.deb; }
	@$(PYTEST) --no-cov tests/cli/commands/test_fleet_sshd.py

wheel: $(READY)
	@rm -rf build/share dist/*.whl
	@packaging/share.sh $(BIN)/nftop build/share
	@$(BIN)/pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist .
	@$(BIN)/python packaging/locked.py > dist/constraints.new && mv dist/constraints.new dist/constraints.txt
	@ls dist/*.whl

# Known holes of nftop's dependencies in the versions of .venv, direct and indirect. Fails if the data
# of a package can't be had.
audit: $(READY)
	@$(call venv,build/audit)
	@build/audit/bin/pip install --quiet --disable-pip-version-check pip-audit
	@$(BIN)/python packaging/locked.py > build/audit/requirements.new && mv build/audit/requirements.new build/audit/requirements.txt
	@build/audit/bin/pip-audit --strict --no-deps --disable-pip -r build/audit/requirements.txt

# Of the system's Python, so for the distribution it is made on.
deb: wheel
	@PIP=$(BIN)/pip packaging/deb.sh dist/nftop-*.whl dist/constraints.txt dist

# In a debootstrapped $(RELEASE), of its Python. As root, with debootstrap.
deb-release: wheel
	@for release in $(RELEASE); do rm -rf dist/$$release; \
	  packaging/debian.sh $$release $(DEBIAN) dist/$$release build-deb.sh dist/nftop-*.whl dist/constraints.txt CHANGELOG.md LICENSE || exit 1; done

# Installs, runs and purges that package in a bare $(RELEASE), with its manual pages and completions.
deb-check: deb-release
	@for release in $(RELEASE); do \
	  packaging/debian.sh $$release $(DEBIAN) dist/$$release check-deb.sh dist/$$release/nftop_*.deb || exit 1; done

# Starts and stops its units under a systemd of their own. As root, with systemd-container.
units-check: deb-release
	@for release in $(RELEASE); do \
	  packaging/debian.sh --boot $$release $(DEBIAN) dist/$$release check-units.sh dist/$$release/nftop_*.deb || exit 1; done

# Installs the wheel in a bare $(RELEASE) as the README says: pipx, uv, for a user and for sudo. As root.
install-check: wheel
	@for release in $(RELEASE); do \
	  packaging/debian.sh $$release $(DEBIAN) dist check-install.sh dist/nftop-*.whl || exit 1; done

# For every user: the system's Python, not one that lives in somebody's home. With the versions of `make wheel`, if it ran.
install: PYTHON := $(or $(shell /usr/bin/python3 -c 'import sys; print(sys.executable) if sys.version_info >= (3, 11) else None' 2>/dev/null | grep /),$(PYTHON))
install:
	@$(no_spaces)
	@test -n "$(PYTHON)" || { echo "nftop needs Python 3.11 or newer (Debian/Ubuntu: apt-get install python3 python3-venv)"; exit 1; }
	@test -w "$(dir $(PREFIX))" -o -w "$(PREFIX)" || { echo "sudo make install: $(PREFIX) is not yours to write"; exit 1; }
	@test ! -e "$(PREFIX)" -o -e "$(PREFIX)/$(MARK)" || { echo "$(PREFIX) exists and is not nftop's: choose another PREFIX"; exit 1; }
	@$(call venv,$(PREFIX))
	@touch $(PREFIX)/$(MARK)
	$(PREFIX)/bin/pip install --quiet --upgrade $(addprefix --constraint ,$(wildcard dist/constraints.txt)) .
	@mkdir -p $(BINDIR)
	ln -sfn $(PREFIX)/bin/nftop $(BINDIR)/nftop
	@packaging/share.sh $(PREFIX)/bin/nftop $(SHAREDIR)

uninstall:
	@$(no_spaces)
	@test -e "$(PREFIX)/$(MARK)" || { echo "$(PREFIX) is not nftop's, so it stays"; exit 1; }
	rm -rf $(PREFIX)
	@test "$$(readlink $(BINDIR)/nftop)" != $(PREFIX)/bin/nftop || rm -f $(BINDIR)/nftop
	@rm -f $(SHAREDIR)/man/man1/nftop.1 $(SHAREDIR)/man/man1/nftop-*.1 $(SHAREDIR)/zsh/site-functions/_nftop \
	  $(SHAREDIR)/bash-completion/completions/nftop $(SHAREDIR)/fish/vendor_completions.d/nftop.fish

# These folders are made and removed: a space would make two of one.
no_spaces = test "$(words $(PREFIX)) $(words $(BINDIR)) $(words $(SHAREDIR))" = "1 1 1" || \
  { echo "PREFIX, BINDIR and SHAREDIR are folders without spaces in their names"; exit 1; }

# A virtual environment, with the one system package it may need named or installed.
define venv
{ $(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
    apt-get update -qq && apt-get install -y -qq --no-install-recommends python3-venv >/dev/null; \
  else echo "nftop needs python3-venv: sudo apt-get install python3-venv"; exit 1; fi; }; } && \
$(PYTHON) -m venv $(1)
endef

$(READY): pyproject.toml
	@test -n "$(PYTHON)" || { echo "nftop needs Python 3.11 or newer (Debian/Ubuntu: apt-get install python3 python3-venv)"; exit 1; }
	@$(call venv,$(VENV))
	@echo "setting up $(VENV)"
	@$(BIN)/pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@

test-packages:
	@missing=; for package in $(TEST_PACKAGES); do \
	  dpkg-query -W -f '$${Status}' $$package 2>/dev/null | grep -q 'ok installed' || missing="$$missing $$package"; done; \
	if [ -z "$$missing" ]; then :; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  echo "installing$$missing"; apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $$missing >/dev/null; \
	else echo "not installed, so the tests that need them are skipped:$$missing (sudo apt-get install$$missing)"; fi

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage
