"""`make experiments`: sweeps and trials against the truth of the simulated host.

`python -m tests.bench.experiments [RUNS [NULL_RUNS]]`, by default 200 and 1000: some minutes.
"""

from __future__ import annotations

import sys
from collections import Counter

from tests.derive.experiment.trials import pair, trial, words_of


def main(runs: int = 200, null_runs: int = 1000) -> int:
    """Print the counts; 1 if they miss their targets."""
    right = drops = false = 0
    seconds, ends = [], Counter[str]()
    for seed in range(runs):
        run = trial(seed)
        curve = run.run()
        best = run.best()
        right += curve.recommended == best
        drops += curve.recommended is not None and run.drops_more(curve.recommended)
        false += run.false_words(curve) > 0
        seconds.append(run.seconds)
        ends[str(run.state.ended)] += 1
        if curve.recommended != best:
            print(f"  seed {seed}: {curve.recommended} of {len(curve.results)}, best {best}")
    seconds.sort()
    print(f"best setting recommended: {right} of {runs} ({right / runs:.1%}; target 95 %)")
    print(
        f"recommended one that drops packets: {drops} (target 0); runs with a false word: {false}"
    )
    print(f"time to the answer: median {seconds[runs // 2]} s, most {seconds[-1]} s; {dict(ends)}")
    null_false = 0
    for seed in range(null_runs):
        run = trial(seed, null=True)
        null_false += run.false_words(run.run()) > 0
    print(f"runs without any effect, with a word of one: {null_false} of {null_runs} (target 3)")
    pairs = [words_of(pair(seed)) for seed in range(runs)]
    large, known = (sum(getattr(item, name) for item in pairs) for name in ("large", "known"))
    pair_false = sum(item.false > 0 for item in pairs)
    print(
        f"trials: differences of 3 % or more with a word: {known} of {large} "
        f"({known / large:.1%}; target 95 %); runs with a false word: {pair_false}"
    )
    nulls = [words_of(pair(seed, null=True)) for seed in range(null_runs)]
    null_pairs = sum(item.false > 0 for item in nulls)
    small, same = (sum(getattr(item, name) for item in nulls) for name in ("small", "same"))
    print(
        f"trials without any effect, with a word of one: {null_pairs} of {null_runs} (target 3); "
        f"numbers that are the same: {same} of {small} ({same / small:.1%})"
    )
    return int(
        right < 0.95 * runs
        or drops > 0
        or null_false > 0.003 * null_runs
        or known < 0.95 * large
        or null_pairs > 0.003 * null_runs
    )


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
