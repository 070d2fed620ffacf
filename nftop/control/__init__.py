"""The only code that changes the host, through one gate.

gate_protocols        the gate as protocols, for screens and commands
gate                  the gate of one backend, and of all backends of the host
backend               what a transaction needs to know of a backend; locks by flock(2)
backends              the registry of backends
transaction           compare, journal, lock, write, read back; keep
series                settings that are tried in turn; the first state is restored
trial                 what `cat try` and `sst try` can try, and their two settings
revert                which cells a revert restores; cells that others have changed are left
recovery              reverts a change, at once or after a crash
journal               changes under way, on disk before they are made, and all that were made
journal_entry         entries of the journal and messages of the guard as JSON
journal_status         what doctor, screens and commands report of the journal
journal_damage        damaged files of the journal, and how to clear them by hand
change_history        directories that nftop created, and what undoes kept changes
guard_process         the process that changes the host, and reverts unless the change is kept
guard_client          starts it, and reads its answers
rdt_limits            what the hardware and the kernel accept: masks, bandwidth, classes
wording               messages about a change and its undo
resctrl, pqos         cache classes by resctrl, or by MSRs where the kernel has no resctrl
cpufreq               frequencies of cores
speed_select          SST-BF and SST-CP classes, by intel-speed-select
profile               allocations in a file: nftop's own format and that of `pqos -f`
simulated             backends of the simulated host, with a journal and a guard in this process

What a crash of the guard cut off stays as it is until an operator runs `nftop recover`. Until then
nftop reports it and changes nothing else. It never recovers by itself at a start: the operator may
have continued by hand since, and traffic may run on what is configured by now. Nothing is written
without confirmation.
"""
