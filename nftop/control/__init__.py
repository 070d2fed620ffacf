"""The only code that changes the host, through one gate.

plan, rules, effects  actions on a state to a proposal; what can't be done, what comes with it
steps                 a change to single writes, in an order whose every state is valid
takeback              the way back, which leaves alone what somebody else has changed since
resctrl, limits       the writes themselves, the state they are about, and what the host takes
journal, checks       what is under way, on disk before it is done; and all that was ever done
transaction           lock, compare, journal, write, read back; undo; mend what a crash left
guard                 the process that does it, and takes it back unless it is kept
gate, words           what everybody else uses, and its sentences
"""
