"""Fuzzers: inputs that no honest program writes, for everything that nftop reads from others.

`registry` has a row per format, `formats` a module per row: seeds and the call into nftop. `worker`
plays inputs in a process with limits; `soak` starts workers and adds to the counts in
`counts.json`. An input that exceeds a limit, or raises what nftop does not document, is a find: a
file in `finds/FORMAT/`, which the tests play for ever.

    python -m tests.fuzz.soak --seconds 600            what `make soak` does
    python -m tests.fuzz.play FORMAT FILE              one input, with the traceback
"""
