"""The only code that changes the host, through one gate.

rules                 what can't be done, and why
wording               sentences about a change and its undo
revert_plan           the undo of a change; leaves alone what others have changed since
history               directories that nftop made, and what takes kept changes back
backend               what a transaction knows of what can be changed
backends              which backends there are
resctrl               cache classes: plan, checks, effects, operations, the only writes, drafts
cpufreq               frequencies of cores
speed_select          SST-BF and SST-CP classes, by intel-speed-select
pqos                  cache classes through MSRs where the kernel has no resctrl
file_lock             nftop's own lock, for backends that have none
journal               changes under way, on disk before they are done, and all that was done
journal_entry         the files of one change
damage                what a damaged file of the journal held, and how to clear it by hand
preconditions         whether what was previewed is still so
transaction           compare, journal, lock, write, read back; keep; repair after a crash
execute               step by step; what is read back, what failed
verify                what became of a change between its making and its being kept
revert                takes back a change under way
guard                 the process that changes, and reverts unless the change is kept
guard_client          a guard that was started, and its replies
gate                  changes through one backend
combined_gate         changes through all backends
interface             the gate as a protocol, for screens, which know no host
recorded_gate         a gate whose changes go into a recording
profile               allocations in a file: nftop's own form and `pqos -f`'s
doctor                lines of doctor about changes
simulated             the simulated host behind the same gate, guard and journal in this process

What a crash of the guard cut off stays as it is until somebody gives `nftop recover`; until then
whoever watches is told, and nothing else is changed. No start of nftop takes it back by itself:
the operator may have gone on by hand since, and traffic may run on what stands there by now, so
that is looked at and decided by a person, as every change is. Nothing is ever written that nobody
confirmed.
"""
