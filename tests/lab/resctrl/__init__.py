"""The kernel's resctrl, in memory: what it answers, refuses and remembers, and what it meters.

`state` holds it, `files` is its tree of files, `tree` serves that. What differs between kernels is
data: `profiles/6.1.toml` and `7.2.toml`. What an operation answers was learnt from the kernel's
documentation (`Documentation/filesystems/resctrl.rst`), from its behaviour under emulation
(`tests/data/kernel`, replayed by `tests/lab/tests/test_transcripts.py`) and, where neither says,
from reading its source.
"""
