"""A lab's processes, and how all of them end when any of them does.

    outer           in the host's namespaces: passes signals on, and the exit code back
    lab-init        process 1 of a PID namespace: sets it up, reaps, watches the others
    lab-server      holds model and clock, answers files
    lab-supervisor  answers system calls of the command and its children; see `calls.supervisor`
    lab-keeper      the command's parent; see `calls.keeper`

The kernel kills whatever is left in a PID namespace when its process 1 ends, and process 1 is
killed when the outer process ends; the mounts go with the last process. So nothing is left behind,
whichever of them is killed.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import json
import os
import signal
import sys
import traceback
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import NoReturn

from nftop.sources.runtime.readiness import wait_readable
from tests.lab import machine, namespace, syscalls
from tests.lab.calls import affinity, keeper, mounting, supervisor
from tests.lab.calls.affinity import Placement
from tests.lab.calls.supervisor import Handlers
from tests.lab.cpuid import calls as cpuid
from tests.lab.cpuid.programs import changed_copies
from tests.lab.options import Options
from tests.lab.perf import opening

FAILED = 125  # as of timeout(1) and env(1): it is not the command's own
_PASSED_ON = frozenset(
    {signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2}
)
_WATCHED = _PASSED_ON | {signal.SIGCHLD}
_SI_KERNEL = 0x80  # asm-generic/siginfo.h


def run(options: Options, execute: keeper.Execute = keeper.execute) -> int:
    """Run the command in a lab of its own; its exit code, 128 + N if signal N killed it.

    If the lab itself fails that is 125, and standard error says why. `execute` turns a process into
    the command.
    """
    try:
        syscalls.unshare(syscalls.NEW_PIDS)
    except OSError as error:
        return _fail(f"{error.strerror}; it needs CAP_SYS_ADMIN")
    terminal = _foreground()
    restored = set(signal.pthread_sigmask(signal.SIG_BLOCK, _WATCHED))
    alive, outer_end = os.pipe()
    init = os.fork()
    if init == 0:
        os.close(outer_end)
        _as_child("lab-init", lambda: _init(options, alive, restored, execute))
    os.close(alive)
    try:
        return _wait({init: "its first process"}, init, lambda number: os.kill(init, number))
    finally:
        os.close(outer_end)
        signal.pthread_sigmask(signal.SIG_SETMASK, restored)
        _give_back(terminal)


def _init(options: Options, alive: int, restored: Collection[int], execute: keeper.Execute) -> int:
    syscalls.die_with_parent()
    if wait_readable([alive], 0):
        return FAILED  # the outer process was gone before it could be asked for
    namespace.enter()
    ready, reported = os.pipe()
    server = os.fork()
    if server == 0:
        os.close(ready)
        _as_child("lab-server", lambda: _server(options, reported))
    os.close(reported)
    with os.fdopen(ready) as answers:
        answer = json.loads(answers.readline() or '{"problem": "the server did not start"}')
    if "problem" in answer:
        return _fail(answer["problem"])
    namespace.furnish(answer["targets"])
    namespace.change_programs(changed_copies())
    if options.resctrl:
        namespace.mount_resctrl()
    if not options.offered:
        namespace.RESCTRL.rmdir()
    named, report = os.pipe()
    supervisor = os.fork()
    if supervisor == 0:
        os.close(named)
        _as_child("lab-supervisor", lambda: _supervisor(options, report, restored, execute))
    os.close(report)
    with os.fdopen(named) as name:
        command = int(name.readline() or 0)
    return _wait(
        {supervisor: "its supervisor", server: "its server"},
        main=supervisor,
        pass_on=lambda number: _send(command, number),
    )


def _supervisor(
    options: Options, report: int, restored: Collection[int], execute: keeper.Execute
) -> int:
    def started() -> None:
        os.write(report, f"{os.getpid()}\n".encode())
        os.close(report)
        signal.pthread_sigmask(signal.SIG_SETMASK, restored)

    # perf(1) asks the CPU itself, whose answer nobody can change, unless it is told.
    kind = machine.with_tables(machine.load(options.machine), machine.PMUS[options.pmu])
    os.environ.setdefault("PERF_CPUID", kind.cpuid)
    return supervisor.run(options.command, _handlers(options), on_start=started, execute=execute)


def _handlers(options: Options) -> Handlers:
    placement = Placement()
    return {
        **opening.handlers(namespace.LIVE / "perf"),
        **affinity.handlers(options.cpus, placement),
        **cpuid.handlers(namespace.LIVE / "cpu", placement),
        **mounting.handlers(functools.partial(_on_mount, offered=options.offered)),
    }


def _on_mount(mount: mounting.Mount, *, offered: bool) -> int | None:
    """What the kernel's resctrl would answer; everything else is the kernel's."""
    if not (mount.mounting or namespace.is_resctrl(mount.target)):
        return None
    if not offered:
        return errno.ENODEV
    if not mount.privileged:
        return errno.EPERM
    try:
        if mount.mounting:
            namespace.mount_resctrl(mount.options, mount.target)
        else:
            namespace.unmount_resctrl(mount.target)
    except OSError as error:
        return error.errno
    return 0


def _send(pid: int, number: int) -> None:
    """kill(2); a command that has just ended, or that has not started, needs no signal."""
    if pid:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def _server(options: Options, reported: int) -> int:
    # A session of its own: what the terminal's keys send is for the command.
    os.setsid()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _WATCHED)
    # With numpy, which only the server needs.
    from tests.lab.files import Folder, update_files, write_folder
    from tests.lab.host import folders, lab_host, trees
    from tests.lab.server import serve

    pipe = os.fdopen(reported, "w")

    def report(answer: Mapping[str, object]) -> None:
        pipe.write(f"{json.dumps(answer)}\n")
        pipe.close()

    def location(folder: Folder) -> Path:
        return namespace.FILES / str(folder.target)[1:]

    def rewrite(before: Folder, after: Folder) -> None:
        update_files(location(before), before.files, after.files)

    try:
        host = lab_host(options)
        static = folders(host)
        for folder in static:
            write_folder(location(folder), folder)
        targets = [str(folder.target) for folder in static]
        serve(trees(host, static, rewrite), namespace.LIVE, lambda: report({"targets": targets}))
    except (ValueError, OSError, ImportError, RuntimeError) as error:
        if pipe.closed:
            return _fail(f"its server: {error}")
        report({"problem": str(error)})
    return FAILED


def _wait(watched: Mapping[int, str], main: int, pass_on: Callable[[int], None]) -> int:
    """Until `main` exits: its exit code. Until one of the `watched` ends otherwise: FAILED."""
    while True:
        info = signal.sigwaitinfo(_WATCHED)
        if info.si_signo != signal.SIGCHLD:
            # The terminal's keys reach the command by themselves: it is in the foreground too.
            if info.si_code != _SI_KERNEL:
                pass_on(info.si_signo)
            continue
        for pid, status in _ended():
            if pid == main and os.WIFEXITED(status):
                return os.WEXITSTATUS(status)
            if pid in watched:
                return _fail(f"{watched[pid]} has ended, and so does the lab")


def _ended() -> list[tuple[int, int]]:
    """Children that have ended, with their wait status; orphans in a PID namespace included."""
    ended = []
    try:
        while (item := os.waitpid(-1, os.WNOHANG))[0]:
            ended.append(item)
    except ChildProcessError:
        pass  # that was the last
    return ended


def _as_child(name: str, body: Callable[[], int]) -> NoReturn:
    """Never back into the code that forked."""
    code = FAILED
    try:
        syscalls.call_me(name)
        code = body()
    except OSError as error:
        _fail(error.strerror or str(error))
    except BaseException:  # noqa: BLE001 - the end of the process
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _fail(sentence: str) -> int:
    print(f"nftop's lab: {sentence}", file=sys.stderr)
    return FAILED


def _foreground() -> int | None:
    """Which process group has the terminal, if there is one."""
    try:
        return os.tcgetpgrp(0)
    except OSError:
        return None


def _give_back(group: int | None) -> None:
    """The terminal, which a shell inside may have died with."""
    if group is None or _foreground() in (group, None):
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTTOU})
    try:
        os.tcsetpgrp(0, group)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
