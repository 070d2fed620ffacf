"""The only code that changes the host, through one gate.

plan, rules, effects  actions on a state to a proposal; what can't be done, what comes with it
judge, words          what is to be said of a change, be it asked for or the way back; in sentences
steps                 a change to single writes, in an order whose every state is valid
takeback              the way back, which leaves alone what somebody else has changed since
past                  which directories are nftop's, and what takes kept changes back
part, parts           what a transaction knows of what can be changed; which there are
classes               the classes as a part, whoever has them
resctrl, limits       the writes themselves, the state they are about, and what the host takes
sst                   the frequencies of cores as a part
isst                  SST-BF and SST-CP classes as a part, by intel-speed-select
own_lock              a lock of nftop's own, for parts that have none
pqos, choice          the same through MSRs where the kernel has no resctrl; which of the two
journal, entry        what is under way, on disk before it is done; and all that was ever done
damage                what a damaged file of the journal held, and how to clear it by hand
compare               whether what was previewed is still so
transaction           compare, journal, lock, write, read back; keep; mend what a crash left
doing                 step by step, and what is read back or what failed
since                 what became of a change between its making and its being kept
undoing               how a change under way is taken back
guard                 the process that does it, and takes it back unless it is kept
gate, joined          what everybody else uses: of one part, of all
pending               a guard that was started, and what it answers
changing              the gate as a protocol, for screens, which know no host
recorded              a gate whose changes are told to a recording
draft, rebase, drift  what every class would be, edited step by step; who else changes them then
profile               allocations written down: nftop's own form and `pqos -f`'s
checks                what doctor and who watches are told of changes
simulated             the simulated host behind the same gate, its guard and journal in this process

What a crash of the guard cut off stays as it is until somebody gives `nftop recover`; until then
whoever watches is told, and nothing else is changed. No start of nftop takes it back by itself:
the operator may have gone on by hand since, and traffic may run on what stands there by now, so
that is looked at and decided by a person, as every change is. Nothing is ever written that nobody
confirmed.
"""
