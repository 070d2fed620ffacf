"""Instant queries to a Prometheus, for all hosts of a fleet at once.

API: prometheus.io/docs/prometheus/latest/querying/api, "Instant queries".
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import islice

import msgspec

from nftop.model.fleet import FleetLabels, FleetQuery, FleetSample, FleetSeries
from nftop.model.missing import Missing, Reason
from nftop.model.struct import dataclass
from nftop.model.terminal_text import safe_line
from nftop.sources.runtime.http_client import (
    Address,
    HttpAnswer,
    HttpSession,
    NoAnswerError,
    is_host_name,
)

LIMIT_S = 10.0
# Of all answers of a reading: 1,000 hosts with five network functions have 9 MB, 45,000 series.
# A series takes up to 0.5 KiB of memory, a text 4 times its bytes, and two readings are kept.
MOST_BYTES, MOST_SERIES = 24 << 20, 150_000
_PORTS = {"http": 80, "https": 443}
_PATH = "/api/v1/query"
_LATEST_S = 1e11  # a time after this is none
_LONGEST_VALUE, _LONGEST_WARNING = 40, 200
_MOST_WARNINGS, _LONGEST_WARNINGS = 4, 1 << 16
_OTHER_OBJECTS = 64
_OK, _REDIRECTS, _UNAUTHORIZED = 200, range(300, 400), (401, 403)
# An object with a key: a series has one or two. Keys may be escaped, a quote in a text always is.
_OBJECT = re.compile(rb'\{\s*"')
_NO_WARNINGS, _LONG = msgspec.Raw(b"[]"), msgspec.Raw(b'["its warnings are too long"]')


@dataclass(frozen=True, slots=True)
class PrometheusUrl:
    """Where a Prometheus is; `path` is before that of its API, "" or such as `/prometheus`."""

    address: Address
    path: str = ""

    @property
    def shown(self) -> str:
        return f"{self.address.shown}{self.path}"


def parse_prometheus_url(text: str) -> PrometheusUrl:
    """The URL `http://HOST[:PORT][/PATH]`, or with https, or `HOST:PORT`. Raises ValueError."""
    from urllib.parse import urlsplit  # noqa: PLC0415 - only where a URL is given

    split = urlsplit(text if "://" in text else f"http://{text}")
    # A bare word is a mistyped URL, not a host.
    if split.scheme not in _PORTS or ("://" not in text and split.port is None):
        raise ValueError("--prometheus takes http://HOST:PORT or https://HOST:PORT")
    if split.username is not None or split.password is not None:
        raise ValueError("no user and password in a URL: --prometheus-token-file has the token")
    if split.query or split.fragment:
        raise ValueError("it takes a host, a port and a path only")
    path = split.path.rstrip("/")
    host = split.hostname or ""
    if not is_host_name(host) or not path.isascii() or not path.isprintable() or " " in path:
        raise ValueError("it names no host")
    port = _PORTS[split.scheme] if split.port is None else split.port
    return PrometheusUrl(Address(host, port, tls=split.scheme == "https"), path)


def check_token(token: str, url: PrometheusUrl) -> None:
    """Raise ValueError if a bearer token can't be sent there."""
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise ValueError("a token is one word of ASCII")
    if not url.address.tls and not url.address.here:
        raise ValueError("a token goes over https, or to this machine, only")


class _Series(msgspec.Struct):
    metric: FleetLabels
    value: tuple[float, str]


class _Data(msgspec.Struct, rename={"kind": "resultType"}):
    kind: str
    result: list[_Series]


class _Document(msgspec.Struct):
    status: str
    data: _Data | None = None
    error: str = ""
    warnings: msgspec.Raw = _NO_WARNINGS


class _Refusal(msgspec.Struct):
    error: str


class PrometheusSource:
    """Reads all queries at one time of evaluation; requests only in `read`.

    Args of `__init__`:
        queries: the first one's answer has the time at which the others are evaluated.
        token: of the Authorization header; "" for none.
        limit_s: for all requests of a reading.
    """

    name = "prometheus"

    def __init__(
        self,
        url: PrometheusUrl,
        queries: Sequence[FleetQuery],
        *,
        token: str = "",
        limit_s: float = LIMIT_S,
        clock_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self.url = url
        self._queries = tuple(queries)
        self._limit_s = limit_s
        self._clock_ns = clock_ns
        self._headers = {"Accept": "application/json"}
        if token:
            check_token(token, url)
            self._headers["Authorization"] = f"Bearer {token}"

    def read(self) -> FleetSample | Missing:
        """Series of all queries, or why there are none. Takes `limit_s`, and its look-up."""
        began_ns = self._clock_ns()
        until_ns = time.monotonic_ns() + int(self._limit_s * 1e9)
        session = HttpSession(
            self.url.address,
            until_ns,
            most_bytes=MOST_BYTES,
            absent=f"no Prometheus listens at {self.url.shown}",
        )
        result: dict[str, list[FleetSeries]] = {}
        notes: dict[str, int] = {}
        evaluated_s, size_bytes, answered, series_left = math.nan, 0, 0, MOST_SERIES
        try:
            for query in self._queries:
                answer = session.get(self._path(query, evaluated_s), self._headers)
                answered += 1
                size_bytes += len(answer.body)
                rows, warnings = self._series_of(answer, series_left)
                series_left -= len(rows)
                if math.isnan(evaluated_s) and rows and 0 < rows[0].value[0] < _LATEST_S:
                    evaluated_s = rows[0].value[0]
                for warning in warnings[:_MOST_WARNINGS]:
                    text = safe_line(warning[:_LONGEST_WARNING])
                    notes.setdefault(f"Prometheus warns: {text}", 0)
                for key, series in _series(query, rows, notes):
                    result.setdefault(key, []).append(series)
        except NoAnswerError as error:
            if error.why.reason is not Reason.STALE:
                return error.why
            count = f"{answered} of {len(self._queries)} queries were answered"
            return Missing(Reason.STALE, f"{self.url.shown}: {count} in {self._limit_s:g} s")
        finally:
            session.close()
        now_ns = self._clock_ns()
        return FleetSample(
            wall_ns=time.time_ns(),
            monotonic_ns=now_ns,
            evaluated_s=evaluated_s,
            took_s=(now_ns - began_ns) / 1e9,
            size_bytes=size_bytes,
            series={key: tuple(rows) for key, rows in result.items()},
            notes=tuple(f"{count} {text}" if count else text for text, count in notes.items()),
        )

    def _path(self, query: FleetQuery, evaluated_s: float) -> str:
        from urllib.parse import urlencode  # noqa: PLC0415 - only where a URL is given

        parameters = {"query": query.text, "timeout": f"{self._limit_s:g}s"}
        if math.isfinite(evaluated_s):
            parameters["time"] = f"{evaluated_s:.3f}"
        return f"{self.url.path}{_PATH}?{urlencode(parameters)}"

    def _series_of(self, answer: HttpAnswer, most: int) -> tuple[list[_Series], list[str]]:
        """The answer's series, at most so many, and its warnings.

        Raises NoAnswerError: it is no success, or too large.
        """
        if answer.status in _REDIRECTS:
            location = answer.location.partition("?")[0].removesuffix(_PATH)
            to = safe_line(location[:_LONGEST_WARNING]) or "nowhere"
            raise self._failed(f"redirects to {to}: no redirect is followed, give that address")
        if answer.status in _UNAUTHORIZED:
            raise self._failed(
                f"refuses with HTTP {answer.status} (--prometheus-token-file FILE)",
                Reason.PERMISSION,
            )
        if answer.status != _OK:
            raise self._failed(f"answers with HTTP {answer.status}{_error_of(answer.body)}")
        objects = islice(_OBJECT.finditer(answer.body), 2 * most + _OTHER_OBJECTS + 1)
        if sum(1 for _ in objects) > 2 * most + _OTHER_OBJECTS:
            raise self._failed(f"answers with more than {MOST_SERIES:,} series")
        try:
            document = msgspec.json.decode(answer.body, type=_Document)
            raw = document.warnings if len(document.warnings) < _LONGEST_WARNINGS else _LONG
            warnings = msgspec.json.decode(raw, type=list[str])
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
            text = safe_line(str(error)[:_LONGEST_WARNING])
            raise self._failed(f"is no Prometheus: {text}") from None
        if document.status != "success" or document.data is None:
            text = safe_line(document.error[:_LONGEST_WARNING]) or "its answer has no data"
            raise self._failed(f"does not answer the query: {text}")
        if document.data.kind != "vector":
            kind = safe_line(document.data.kind[:_LONGEST_VALUE])
            raise self._failed(f"answers with {kind}, not a vector")
        return document.data.result, warnings

    def _failed(self, text: str, reason: Reason = Reason.ERROR) -> NoAnswerError:
        return NoAnswerError(Missing(reason, f"{self.url.shown} {text}"))


def _error_of(body: bytes) -> str:
    """`: ` and Prometheus' own message, if the body has one."""
    try:
        text = msgspec.json.decode(body, type=_Refusal).error
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return ""
    return f": {safe_line(text[:_LONGEST_WARNING])}"


def _series(
    query: FleetQuery, rows: Sequence[_Series], notes: dict[str, int]
) -> Iterator[tuple[str, FleetSeries]]:
    """Series with a finite value and a target; the others are counted in `notes`."""
    only = next(iter(query.keys.values())) if len(query.keys) == 1 else None
    for row in rows:
        # With one family the name may be lacking, as in the answer of a proxy.
        key, factor = only or query.keys.get(row.metric.family, ("", 1.0))
        text = row.value[1]
        try:
            value = float(text) if len(text) <= _LONGEST_VALUE else math.nan
        except ValueError:
            value = math.nan
        if not key or not row.metric.instance:
            _count(notes, "series have no instance, or another name than asked for: left out")
        elif not math.isfinite(value):
            _count(notes, "values are no finite numbers: left out")
        else:
            yield key, FleetSeries(row.metric, value * factor)


def _count(notes: dict[str, int], text: str) -> None:
    notes[text] = notes.get(text, 0) + 1
