"""The only code that changes the host, through one gate.

plan         actions on a state to a proposal; says what can't be done, and what comes with it
steps        a change to single writes, in an order whose every state is valid
resctrl      the writes themselves, and the state they are about
journal      what is under way, on disk before it is done; and all that was ever done
transaction  lock, compare, journal, write, read back; undo; mend what a crash left
guard        the process that does it, and takes it back unless it is kept
gate         what everybody else uses
"""
