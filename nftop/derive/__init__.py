"""The pure fold `step(state, sample) -> (state, frame)`, the same live and replayed."""
