"""Profiles: allocations written down, to be read into a proposal or drawn up from a host.

Two forms: nftop's own (TOML) and what `pqos -f` reads. Reading never changes anything: what is
wrong is listed with the edit of the text that would mend it, and only edits that somebody accepted
are made.
"""
