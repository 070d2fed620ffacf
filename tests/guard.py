"""Who may touch the host: the tables, and the reader of syntax trees that holds code to them.

It sees what import contracts cannot: a file opened for writing, a process spawned, an affinity
set. It knows modules by what may be used of them, not by what may not: whatever is in neither
table is refused, so a new way to write is an entry here, with its reason, before it is code.

It stops mistakes and short cuts, not somebody who hides what he does. `test_architecture` tests it
on mutants.
"""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache

# Modules that change nothing outside the process whatever of them is used, METHODS aside.
HARMLESS = frozenset(
    "__future__ abc argparse array bisect collections contextlib csv dataclasses datetime "
    "difflib enum errno functools html.escape http.HTTPStatus ipaddress itertools json locale "
    "math random.Random re select shlex stat struct textwrap threading tomllib types typing "
    "unicodedata weakref msgspec numpy rich.cells rich.color rich.segment rich.style statistics "
    "textual nftop".split()
)
# What a layer or a file may use of every other module, and those of METHODS and BUILTINS it may.
MAY: Mapping[str, str] = {
    "": "time.monotonic time.monotonic_ns time.time_ns time.process_time_ns time.sleep",
    # Looking at the host.
    "sources": "os.open os.close os.read os.pread os.scandir os.DirEntry os.stat os.readlink "
    "os.fspath os.fsdecode os.path.split os.path.lexists os.strerror os.sysconf os.environ "
    "os.getpid os.geteuid "
    "os.sched_getaffinity os.O_RDONLY os.O_CLOEXEC os.O_PATH os.O_DIRECTORY os.O_NONBLOCK "
    "os.O_NOFOLLOW pathlib.Path resource.getrlimit resource.RLIMIT_NOFILE resource.RLIM_INFINITY",
    # Our own affinity.
    "sources/runtime/affinity.py": "os.sched_setaffinity",
    # The lock of who reads resctrl, and who else holds it.
    "sources/resctrl/files.py": "fcntl.flock fcntl.LOCK_SH fcntl.LOCK_NB os.major os.minor",
    # perf_event_open(2) has no wrapper, counters are switched on by ioctl, and each needs a
    # descriptor: the limit raised is our own.
    "sources/perf/abi.py": "ctypes.* fcntl.ioctl os.readv resource.setrlimit platform.machine",
    # Facts of one process.
    "sources/process/facts.py": "psutil.Process psutil.NoSuchProcess",
    # One module, the distribution's own, from a file that only root can have written.
    "sources/pyperf/module.py": "importlib.machinery.ExtensionFileLoader "
    "importlib.machinery.EXTENSION_SUFFIXES importlib.util.spec_from_loader "
    "importlib.util.module_from_spec sys.version_info getattr "
    # And descriptor 2 points nowhere while it complains.
    "os.dup os.dup2 os.devnull os.O_WRONLY",
    # Unix sockets of NFs, which are asked only what the client has in its allow-list.
    "sources/nf_session/connection.py": "socket.socket socket.AF_UNIX",
    # inotify(7) has no wrapper.
    "sources/nf_session/discovery.py": "os.stat_result os.fstat os.fsencode os.path.is* ctypes.*",
    "sources/dpdk/client.py": "socket.socket socket.SOCK_SEQPACKET socket.MSG_*",
    "sources/dpdk/latency.py": "socket.socket socket.SOCK_SEQPACKET socket.MSG_*",
    "sources/ovs/jsonrpc.py": "socket.socket socket.SOCK_STREAM socket.MSG_*",
    # What kind each network interface is, asked of the kernel.
    "sources/netdev/source.py": "socket.socket socket.AF_NETLINK socket.SOCK_RAW "
    "socket.SOCK_CLOEXEC",
    # Names of the users that sockets belong to, and who can replace the socket's file.
    "sources/trust/ownership.py": "pwd.getpwuid os.fstat os.stat_result",
    # Credentials of a Unix socket's peer; the kernel's row of one TCP socket, by sock_diag(7).
    "sources/trust/peer.py": "socket.socket socket.SOL_SOCKET socket.SO_PEERCRED socket.AF_NETLINK "
    "socket.AF_INET socket.AF_INET6 socket.SOCK_RAW socket.SOCK_CLOEXEC socket.IPPROTO_TCP "
    "sys.byteorder os.fsencode",
    "sources/pcm/source.py": "socket.socket",
    # Servers, of this host or another, which are asked by GET only; TLS with the system's CAs.
    "sources/runtime/http_client.py": "socket.socket socket.getaddrinfo socket.SOCK_STREAM "
    "http.client.HTTPConnection http.client.HTTPException http.client.HTTPResponse "
    "http.client.RemoteDisconnected ssl.SSLSocket ssl.create_default_context",
    "sources/pcm/client.py": "socket.socket urllib.parse.urlsplit",
    "sources/prometheus.py": "urllib.parse.urlsplit urllib.parse.urlencode",
    # ssh, of the operator's PATH: another host's recorder.
    "sources/ssh.py": "subprocess.Popen subprocess.TimeoutExpired subprocess.DEVNULL "
    "subprocess.PIPE os.dup terminate kill",
    # External programs with a time limit, and helper processes for libraries that may crash or
    # hang, and the guard: started here and nowhere else.
    "sources/runtime/helper.py": "subprocess.Popen subprocess.TimeoutExpired subprocess.DEVNULL "
    "subprocess.PIPE socket.socketpair "
    "socket.socket kill os.fdopen os.memfd_create sys.executable signal.Signals "
    # With a limit on what the segment of another program may cost there.
    "resource.prlimit resource.RLIMIT_AS",
    # libpqos, in such a process.
    "sources/pqos/source.py": "socket.socket",
    "sources/pqos/worker.py": "os.dup os.dup2 os.write signal.signal signal.SIG* sys.stdin "
    "sys.exit "
    # A value of libpqos' by its member's name.
    "getattr",
    # Which library it is, before anything in it is called.
    "sources/pqos/library.py": "pqos.* sys.stderr ctypes.CDLL importlib.metadata.version "
    "importlib.metadata.PackageNotFoundError",
    # VPP's stats sockets, which are asked nothing: they hand out a descriptor.
    "sources/vpp/session.py": "socket.SOCK_SEQPACKET socket.CMSG_SPACE "
    "socket.SOL_SOCKET socket.SCM_RIGHTS socket.MSG_CMSG_CLOEXEC",
    # What that leads to, mapped to be read, in a process of its own which keeps off polling cores.
    "sources/vpp/segment.py": "mmap.mmap mmap.MAP_SHARED mmap.PROT_READ vpp_papi.vpp_stats.*",
    "sources/vpp/worker.py": "os.dup os.dup2 os.write os.sched_setaffinity signal.signal "
    "resource.setrlimit resource.RLIMIT_CPU "
    "signal.SIG* signal.setitimer signal.ITIMER_PROF sys.stdin sys.argv sys.exit",
    "sources/vpp/reader.py": "os.fstat "
    "importlib.metadata.version importlib.metadata.PackageNotFoundError",
    # The package's own data files; formulas are parsed by Python's grammar and never run as code.
    "uarch": "importlib.resources.files ast.*",
    # What papers measured.
    "papers": "importlib.resources.files",
    # Its scenarios and workloads.
    "sim": "importlib.resources.files",
    # A field of our own record, by name.
    "derive/cpu/table.py": "getattr",
    # Every module of the package registers its screen.
    "ui/screens/registry.py": "pkgutil.iter_modules importlib.import_module",
    "model/sample_bounds.py": "getattr",
    # Tables of the package that are no code.
    "model/data_files.py": "pathlib.Path sys.modules read_bytes iterdir",
    # Attributes of a class body, to create a Struct with them.
    "model/struct.py": "__dict__ replace",
    # Which modules libraries find.
    "model/absent.py": "sys.modules",
    # Whether a descriptor is of procfs: fstatfs(2) has no wrapper.
    "model/procfs.py": "ctypes.* os.strerror",
    "cli/parsers/cat_actions.py": "getattr",
    "cli/compose/classes_host.py": "pathlib.Path sys.stdout",
    # The one code that writes to the host, and looks whether a thread is still the same.
    "control/resctrl/writer.py": "os.open os.close os.write os.O_* os.statvfs pathlib.Path open "
    "mkdir rmdir",
    "control/pqos.py": "pathlib.Path",
    # What is under way, in its own folder.
    "control/journal.py": "os.open os.close os.read os.write os.pread os.pwrite os.ftruncate "
    "os.fsync os.fstat os.getpid os.geteuid os.O_* fcntl.flock fcntl.LOCK_* "
    "pathlib.Path open mkdir unlink replace",
    "control/journal_entry.py": "getattr hashlib.sha256 os.fspath pathlib.Path",
    # Whether a guard is a child of this process.
    "control/journal_status.py": "os.waitid os.P_PID os.WEXITED os.WNOHANG os.WNOWAIT",
    # The channel to the guard, a helper process.
    "control/guard_client.py": "subprocess.Popen socket.socket socket.MSG_* "
    "subprocess.TimeoutExpired",
    # Who asks.
    "control/gate.py": "os.environ os.getuid os.geteuid pwd.getpwuid",
    "control/backends.py": "pathlib.Path",
    # The one code that writes frequencies, beneath the one directory of their policies.
    "control/cpufreq/cpufreq.py": "os.open os.close os.read os.write os.listdir os.O_* "
    "pathlib.Path open",
    # The one code that has intel-speed-select set something, by `sources/runtime/helper`.
    "control/speed_select/backend.py": "pathlib.Path",
    "control/guard_process.py": "os.read os.write os.umask os.chdir os.set_blocking "
    "signal.signal signal.SIG* pathlib.Path sys.exit",
    # Words and answers of its guard, which is a thread.
    "control/simulated.py": "queue.Queue queue.Empty",
    # Locks of backends.
    "control/backend.py": "os.open os.close os.O_* fcntl.flock fcntl.LOCK_EX fcntl.LOCK_NB "
    "pathlib.Path open",
    "cli/commands/cat.py": "os.fdopen pathlib.Path sys.stdin sys.stdout",
    "cli/commands/completion.py": "sys.stdout",
    "cli/commands/man.py": "sys.stdout",
    "cli/commands/sst.py": "sys.stdout",
    "cli/commands/sweep.py": "os.environ pathlib.Path shutil.get_terminal_size "
    "sys.stdout sys.stderr",
    "cli/commands/footprint.py": "shutil.get_terminal_size sys.stdout sys.stderr",
    "cli/commands/undo.py": "sys.stdout",
    "cli/commands/apply.py": "sys.stdout",
    "cli/commands/cat_show.py": "sys.stdout",
    "cli/confirmation.py": "sys.stdin sys.stdout",
    # A file that the operator named, and that was not there.
    # Recordings: new files only, in the user's folders, and the oldest of a rotation go.
    "store": "backports.zstd.* compression.zstd.* zlib.crc32 sys.version_info",
    # Fields of our own records, by their descriptions.
    "store/format/codec.py": "operator.attrgetter",
    # The one code that opens, makes, renames and removes files of the operator's.
    "store/folders.py": "os.open os.close os.stat os.fstat os.mkdir os.fchown os.scandir "
    "os.readlink os.rename os.unlink os.geteuid os.fspath os.strerror os.O_* os.stat_result "
    "pathlib.Path os.environ os.fdopen pwd.getpwuid open mkdir rename unlink",
    "store/recording/sink.py": "os.write os.close os.pread os.fstat os.fdatasync os.ftruncate "
    "os.geteuid os.lseek os.SEEK_SET pathlib.Path",
    # Baselines that the operator asked to be kept: a file beside the old one, in its place then.
    "cli/compose/baselines.py": "os.environ pathlib.Path",
    "store/user/baselines.py": "os.close os.pread pathlib.Path",
    # What the operator has in his own configuration folder.
    "store/user/config_dir.py": "os.close os.pread os.fstat os.fsync os.fdopen os.getpid "
    "pathlib.Path",
    "store/user/chosen_columns.py": "pathlib.Path",
    "store/user/rules.py": "pathlib.Path",
    "store/user/fleet_hosts.py": "pathlib.Path",
    "store/reading/bytes.py": "os.close os.dup os.pread os.read os.fstat",
    # What waits to be written.
    "store/recording/recorder.py": "queue.SimpleQueue",
    "cli/compose/recorders.py": "os.environ os.uname platform.python_version sys.argv pathlib.Path",
    "cli/commands/record.py": "os.open os.close os.dup os.dup2 os.fstat os.environ os.O_* "
    "pathlib.Path sys.stdout",
    # A field of our own record, by name.
    "export/json/encode.py": "getattr",
    # Text in memory.
    "export/csv.py": "io.StringIO",
    # A dashboard's id, of its job.
    "export/fleet/dashboard.py": "zlib.crc32",
    # The files of an export: new ones, and those go again where it fails.
    "export/tables/outputs.py": "io.StringIO os.fdopen pathlib.Path sys.stdout",
    "export/tables/parquet.py": "pyarrow.*",
    # New files, which replace those of the same recording; the lock is on the folder of all.
    "export/tables/dataset.py": "os.fdopen os.fsync fcntl.flock fcntl.LOCK_* hashlib.sha256 "
    "secrets.token_hex urllib.parse.quote pathlib.Path",
    "cli/commands/export.py": "os.environ pathlib.Path",
    "cli/commands/compare.py": "shutil.get_terminal_size sys.stdout",
    "cli/cuts.py": "signal.SIG*",
    # Findings for the local syslog or journal: datagrams, without waiting.
    "export/finding_log.py": "socket.socket socket.AF_UNIX socket.SOCK_DGRAM socket.SOCK_CLOEXEC "
    "socket.SOCK_NONBLOCK os.getpid",
    # The recording that an interval is of.
    "session/interval.py": "os.close os.fstat pathlib.Path",
    # What reading a recording in the background costs.
    "session/survey.py": "time.thread_time",
    # An attribute of Textual's own strip, after it was made.
    "ui/widgets/lines.py": "getattr",
    # The one port that nftop listens at, on loopback: who asks gets the latest frame.
    "export/http/server.py": "socket.socket socket.AF_INET socket.AF_INET6 socket.SOCK_STREAM "
    "socket.SOL_SOCKET socket.SO_REUSEADDR socket.SHUT_WR socket.socketpair bind "
    "selectors.DefaultSelector selectors.BaseSelector selectors.EVENT_*",
    # The event loop, imported without ssl.
    "ui/__init__.py": "asyncio.AbstractEventLoop",
    # The event loop: the end of the session.
    "ui/app.py": "asyncio.get_running_loop asyncio.AbstractEventLoop sys.setswitchinterval",
    # The terminal: what is typed, and waking for signals.
    "ui/terminal_driver.py": "asyncio.get_running_loop signal.SIGTSTP signal.SIGCONT os.read "
    "os.close os.eventfd os.eventfd_write os.EFD_CLOEXEC "
    "codecs.getincrementaldecoder",
    # Whether standard output is a terminal, and what is on it before the screen.
    "cli/first_frame.py": "os.environ os.get_terminal_size sys.stdin sys.stdout",
    "cli/signals.py": "os._exit signal.signal signal.SIG* queue.SimpleQueue",
    # How Python was started, which its locale depends on.
    "render/base/text.py": "sys.flags",
    # Settings of rules, kept by an object that the command gives to the screens.
    "ui/rule_control.py": "save",
    # Standard output, and how nftop ends.
    "cli/parsers/common.py": "os.environ os.get_terminal_size sys.__stdout__ sys.exit getattr",
    "cli/main.py": "os.environ signal.SIG* sys.stdout gc.enable "
    # The function of a command, by the table of commands.
    "importlib.import_module getattr",
    "cli/config.py": "os.environ pathlib.Path sys.stdout",
    "export/output.py": "sys.stdout sys.stderr os.open os.close os.dup2 os.devnull os.O_*",
    "cli/compose/hosts.py": "pathlib.Path",
    "cli/commands/doctor.py": "os.environ pathlib.Path shutil.get_terminal_size sys.stdout",
    "cli/commands/explain.py": "pathlib.Path sys.stdout",
    "cli/commands/tma.py": "os.fdopen pathlib.Path signal.SIG* sys.stdin sys.stdout",
    "cli/commands/report.py": "os.fdopen pathlib.Path time.thread_time sys.stdout",
    "cli/commands/serve.py": "signal.SIG*",
    "cli/commands/fleet.py": "pathlib.Path sys.stdin sys.stdout",
    "cli/commands/live.py": "io.TextIOWrapper os.environ shutil.get_terminal_size sys.stdin "
    "sys.stdout sys.__stdout__ sys.__stderr__ gc.get_freeze_count gc.freeze gc.enable os.open "
    "os.devnull os.O_RDONLY os.O_CLOEXEC os.close",
    "__main__.py": "os.environ signal.signal signal.SIG* sys.argv sys.exit sys.excepthook "
    "traceback.* gc.disable",
}
# Layers that read nothing either.
PURE = ("model", "derive", "render", "ui")
# Methods that write or start something, of whatever object: pathlib, numpy, psutil, sockets,
# event loops, Textual. `open` and `replace` have rules of their own; `write`, `send` and the like
# need an object that only the tables above can give.
METHODS = frozenset(
    "write_text write_bytes touch mkdir unlink rmdir rename symlink_to hardlink_to link_to chmod "
    "lchmod tofile dump save savez savez_compressed savetxt memmap load_library kill terminate "
    "send_signal suspend resume nice ionice cpu_affinity rlimit bind subprocess_exec "
    "subprocess_shell save_screenshot deliver_text deliver_binary deliver_screenshot "
    "open_url".split()
)
READS = frozenset("read_text read_bytes iterdir glob rglob connect".split())
# Names that get at anything. `getattr` of a name that can be read here is the attribute itself.
BUILTINS = frozenset(
    "eval exec compile globals locals vars getattr breakpoint input __import__ __builtins__ "
    "__loader__ __spec__".split()
)
INSIDES = frozenset("__dict__ __globals__ __builtins__ __getattribute__ __subclasses__".split())
# Modules not to be reached through another module that happens to import them.
HIDDEN = frozenset(
    "os posix sys builtins io pathlib shutil tempfile subprocess multiprocessing pty socket signal "
    "ctypes fcntl resource importlib asyncio".split()
)


@dataclass(frozen=True)
class Use:
    """A name that is read, with all its attributes: `os.path.join`, `Path(x).open`.

    `name` is what it begins with, "" for an expression; `full` is what an imported name stands
    for, with the attributes, "" for any other; `call` is the call whose function this is.
    """

    line: int
    name: str
    full: str
    attributes: tuple[str, ...]
    call: ast.Call | None

    @property
    def words(self) -> set[str]:
        """The names in it that METHODS may mean; our own functions are called what they like."""
        foreign = self.full and not self.full.startswith("nftop.")
        return set(self.full.split(".")[1:] if foreign else self.attributes)


def imports(tree: ast.AST) -> Iterator[tuple[str, str, str]]:
    """Names that imports bind, what each stands for in full, and what is imported."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                stands_for = alias.name if alias.asname else alias.name.split(".")[0]
                yield alias.asname or stands_for, stands_for, alias.name
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                full = f"{node.module or ''}.{alias.name}"
                yield alias.asname or alias.name, full, full


def uses(tree: ast.AST) -> Iterator[Use]:
    """Every name that is read and every chain of attributes, once."""
    bound = {name: full for name, full, _ in imports(tree)}
    nodes = list(ast.walk(tree))
    calls = {id(node.func): node for node in nodes if isinstance(node, ast.Call)}
    inner = {id(node.value) for node in nodes if isinstance(node, ast.Attribute)}
    for node in nodes:
        if id(node) in inner or not isinstance(node, ast.Attribute | ast.Name):
            continue
        if isinstance(node, ast.Attribute) or isinstance(node.ctx, ast.Load):
            use = _use(node, bound, calls.get(id(node)))
            yield _fetched(use) or use


@lru_cache(maxsize=1)
def _read(source: str) -> tuple[tuple[str, ...], tuple[Use, ...]]:
    """What a module imports and uses; its exceptions are taken away one after the other."""
    tree = ast.parse(source)
    return tuple(full for _, _, full in imports(tree)), tuple(uses(tree))


def _use(node: ast.expr, bound: Mapping[str, str], call: ast.Call | None) -> Use:
    line = node.lineno
    attributes: list[str] = []
    while isinstance(node, ast.Attribute):
        attributes.insert(0, node.attr)
        node = node.value
    name = node.id if isinstance(node, ast.Name) else ""
    full = ".".join([bound[name], *attributes]) if name in bound else ""
    return Use(line, name, full, tuple(attributes), call)


def _fetched(use: Use) -> Use | None:
    """`getattr(x, "unlink")` as the `x.unlink` it is."""
    arguments = use.call.args if use.call and use.name == "getattr" else []
    if len(arguments) < 2 or not isinstance(arguments[1], ast.Constant):
        return None
    return Use(use.line, "", "", (str(arguments[1].value),), None)


def prefixes(full: str) -> list[str]:
    """`a.b.c`: a, a.b, a.b.c."""
    return list(itertools.accumulate(full.split("."), "{}.{}".format))


def opens_to_read(use: Use) -> bool:
    """Whether this `open` is called where one sees that it changes nothing."""
    call = use.call
    if call is None or use.attributes[-1:] not in ((), ("open",)):
        return False
    if use.full == "os.open":
        path, flags, *more = [*map(ast.unparse, call.args), "", ""]
        shown = re.fullmatch(r"os\.O_\w+( \| os\.O_\w+)*", flags)
        to_nowhere = path == "os.devnull" or "O_WRONLY" not in flags
        below_a_folder = all(keyword.arg == "dir_fd" for keyword in call.keywords)
        return bool(shown and to_nowhere and not any(more) and below_a_folder)
    file_first = use.name == "open" or use.full.startswith(("pathlib.", "io."))
    modes = call.args[file_first:][:1]
    modes += [keyword.value for keyword in call.keywords if keyword.arg == "mode"]
    unseen = any(item.arg in (None, "opener") for item in call.keywords) or any(
        isinstance(item, ast.Starred) for item in call.args
    )
    return not unseen and all(
        isinstance(mode, ast.Constant) and set(str(mode.value)) <= set("rbt") for mode in modes
    )


def replaces_no_file(use: Use) -> bool:
    """Whether this `.replace` is that of a text, a date or a record: Path's takes one argument."""
    call = use.call
    if call is None or use.attributes[-1] != "replace" or use.full.startswith("pathlib."):
        return False
    if any(isinstance(item, ast.Starred) for item in call.args):
        return False
    named = {keyword.arg for keyword in call.keywords} - {"target", None}
    return len(call.args) > 1 or bool(named)


@dataclass(frozen=True)
class Guard:
    """What one module may do, from the tables."""

    pure: bool
    patterns: tuple[str, ...]

    def may(self, full: str) -> bool:
        """Whether it may use this dotted name or method."""
        return any(
            fnmatchcase(prefix, pattern) for prefix in prefixes(full) for pattern in self.patterns
        )

    def offences(self, source: str) -> list[str]:
        """What it does all the same, as `line: what`."""
        imported, used = _read(source)
        result = [f"import {full}" for full in imported if not self._may_import(full)]
        return result + [f"{use.line}: {what}" for use in used for what in self._refused(use)]

    def _may_import(self, full: str) -> bool:
        if full.endswith(".*"):
            return False
        if HARMLESS.intersection(prefixes(full)):
            return not hidden(full)
        return self.may(full) or any(pattern.startswith(f"{full}.") for pattern in self.patterns)

    def _refused(self, use: Use) -> Iterator[str]:
        foreign = use.full and not HARMLESS.intersection(prefixes(use.full))
        if (foreign and not self.may(use.full)) or (not foreign and hidden(use.full)):
            yield use.full
        refused = METHODS | INSIDES | (READS if self.pure else set())
        words = (use.words & refused) | ({use.name} & BUILTINS if not use.full else set())
        yield from (word for word in sorted(words) if not self.may(word))
        opened = "open" in use.words or (use.name == "open" and not use.full)
        if opened and (self.pure or not opens_to_read(use)) and not self.may("open"):
            yield "open"
        if "replace" in use.attributes and not replaces_no_file(use) and not self.may("replace"):
            yield "replace"


def hidden(full: str) -> bool:
    """Whether a dotted name goes through a harmless module to one that is not."""
    return any(component.strip("_") in HIDDEN for component in full.split(".")[1:])


def guard(module: str) -> Guard:
    """The guard of the module at this path below the package."""
    layers = [where for where in MAY if where in ("", module) or module.startswith(f"{where}/")]
    patterns = [pattern for where in layers for pattern in MAY[where].split()]
    return Guard(module.split("/")[0] in PURE, tuple(patterns))
