"""perf_event_open(2) for the lab: a supervisor that catches it, and files that answer as events."""
