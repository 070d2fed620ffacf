"""From raw samples to what is shown: a pure fold, the same live and replayed.

`step(state, sample) -> (state, frame)`. Rates, what needs a reading before it, live in the state.
"""
