"""Terminal interface: Textual widgets that show the lines of `render`."""

from nftop.model.absent import without

# OpenSSL takes 5 MB, and a while to load; no screen needs asyncio's TLS.
with without("ssl"):
    import asyncio  # noqa: F401 - before Textual imports it
