"""A report as one HTML file without scripts or requests, or as Markdown for a ticket.

Texts are untrusted: they are cleaned as for a terminal, and escaped where a block is written, so
they stay text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from html import escape

import numpy as np
from numpy.typing import NDArray

from nftop.export.report.content import Graph, Heading, Items, ReportBlock, Text, TextTable
from nftop.model.median import median
from nftop.render.base.graph import BLOCKS
from nftop.render.base.text import printable

_STYLE = (
    """\
:root{color-scheme:light dark;--ink:#1b2027;--muted:#667;--line:#ccd;--bad:#c22;--ground:#fff;
--c0:#1667b7;--c1:#c2571a;--c2:#b01c3c;--c3:#3a8f3f;--c4:#7a4bb0;--c5:#8a6d1a;--c6:#0f8a8a;--c7:#555}
@media screen and (prefers-color-scheme:dark){:root{--ink:#d8dde4;--muted:#99a;--line:#345;
--bad:#f66;--ground:#0f1318;--c0:#5aa9f5;--c1:#f0955a;--c2:#f2637f;--c3:#7ccf80;--c4:#b690ea;--c5:#d6b95c;
--c6:#4fd0d0;--c7:#aaa}}
body{font:15px/1.45 system-ui,sans-serif;color:var(--ink);background:var(--ground);
max-width:62rem;margin:2rem auto;padding:0 1rem}
h1{font-size:1.5rem}h2{border-bottom:1px solid var(--line);margin-top:2rem}
table{border-collapse:collapse;margin:.6rem 0;font-size:.92em}
th,td{text-align:left;padding:.15rem .7rem .15rem 0;vertical-align:top}
td:last-child{overflow-wrap:anywhere}td:last-child:not(.n){min-width:11em}td.n,th.n{white-space:nowrap}
th{color:var(--muted);font-weight:600}td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}
.alert{color:var(--bad);font-weight:600}pre{overflow:auto;font-size:.85em}
figure{margin:.8rem 0;break-inside:avoid}figcaption{font-size:.9em}
svg{width:100%;height:auto;max-width:46rem}svg text{fill:var(--muted);font-size:11px}
.axis{stroke:var(--line)}.shade{fill:var(--bad);opacity:.12}
.moment{stroke:var(--ink);stroke-dasharray:3 3}
.curve{fill:none;stroke-width:1.6}
"""
    + "".join(
        f".c{index}{{stroke:var(--c{index})}}b.k{index}{{color:var(--c{index})}}"
        for index in range(8)
    )
    + """
@page{margin:12mm}
@media print{:root{color-scheme:light}body{max-width:none;margin:0;padding:0;font-size:11px}
h2,h3,figcaption,thead{break-after:avoid}tr,li,figure{break-inside:avoid}h2{margin-top:1.2rem}
p,li{orphans:3;widows:3}pre{white-space:pre-wrap;overflow-wrap:anywhere;overflow:visible}
svg{max-width:34rem}}
"""
)
_HUES = 8
_MD_BLOCKS = 60
_PLOT = (46.0, 8.0, 690.0, 118.0)  # left, top, right, bottom of 700 x 140


def html_report(blocks: Sequence[ReportBlock]) -> str:
    """One file: no script, no image, no font, and a policy that lets a browser fetch nothing."""
    title = next((block.text for block in blocks if isinstance(block, Heading)), "nftop report")
    body = "\n".join(_HTML[type(block)](block) for block in blocks)
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width">\n'
        f"<title>{_html(title)}</title>\n<style>{_STYLE}</style></head>\n<body>\n{body}\n"
        "</body></html>\n"
    )


def _html(text: str) -> str:
    return escape(printable(text))


def _heading_html(block: Heading) -> str:
    return f"<h{block.level}>{_html(block.text)}</h{block.level}>"


def _text_html(block: Text) -> str:
    return f"<p{' class=alert' if block.is_alert else ''}>{_html(block.text)}</p>"


def _items_html(block: Items) -> str:
    if block.is_code:
        lines = "\n".join(map(_html, block.texts))
        return f"<pre>{lines}</pre>"
    return f"<ul>{''.join(f'<li>{_html(text)}</li>' for text in block.texts)}</ul>"


def _table_html(block: TextTable) -> str:
    def row(cells: Sequence[str], tag: str) -> str:
        numbers = [' class="n"' if block.is_number(at) else "" for at in range(len(cells))]
        inner = (
            f"<{tag}{kind}>{_html(text)}</{tag}>" for kind, text in zip(numbers, cells, strict=True)
        )
        return f"<tr>{''.join(inner)}</tr>"

    head = f"<thead>{row(block.header, 'th')}</thead>" if any(block.header) else ""
    return (
        f"<table>{head}<tbody>{''.join(row(cells, 'td') for cells in block.rows)}</tbody></table>"
    )


def _graph_html(block: Graph) -> str:
    left, top, right, bottom = _PLOT
    known = [values[np.isfinite(values)] for _, values in block.curves]
    numbers = np.concatenate(known) if known else np.zeros(0)
    title = f"{_html(block.title)}, {_html(block.unit)}"
    if not len(numbers):
        return f"<figure><figcaption>{title}: no values</figcaption></figure>"
    low, high = _range(float(numbers.min()), float(numbers.max()))

    def x(share: float) -> float:
        return left + share * (right - left)

    def y(value: float) -> float:
        return bottom - (value - low) / (high - low) * (bottom - top)

    shade = f'class="shade" y="{top}" height="{bottom - top}"'
    texts = [
        f'<rect {shade} x="{x(begin):.1f}" width="{max(1.0, x(end) - x(begin)):.1f}"/>'
        for begin, end in block.shades
    ]
    texts += [f'<path class="moment" d="M{x(at):.1f} {top}V{bottom}"/>' for at in block.moments]
    texts.append(f'<path class="axis" fill="none" d="M{left} {top}V{bottom}H{right}"/>')
    for value, at in ((high, top + 8), (low, bottom)):
        texts.append(f'<text x="{left - 4}" y="{at}" text-anchor="end">{value:.4g}</text>')
    texts.append(f'<text x="{left}" y="{bottom + 15}">{_html(block.ends[0])}</text>')
    texts.append(
        f'<text x="{right}" y="{bottom + 15}" text-anchor="end">{_html(block.ends[1])}</text>'
    )
    keys = []
    for number, (name, values) in enumerate(block.curves):
        hue = number % _HUES
        keys.append(f'<b class="k{hue}">{_html(name)}</b>')
        texts.append(f'<path class="curve c{hue}" d="{_path(values, x, y)}"/>')
    note = "" if low == 0 else "; the axis does not start at 0"
    legend = f" {' '.join(keys)}" if len(keys) > 1 else ""
    picture = f'<svg viewBox="0 0 700 140" role="img" aria-label="{title}">{"".join(texts)}</svg>'
    return f"<figure><figcaption>{title}{note}{legend}</figcaption>{picture}</figure>"


def _range(low: float, high: float) -> tuple[float, float]:
    """Limits of an axis: from 0, unless the values are far from it."""
    if (low >= 0 and low < 0.5 * high) or high == low == 0:
        return 0.0, high or 1.0
    pad = 0.1 * (high - low) or 0.1 * abs(high) or 1.0
    return low - pad, high + pad


def _path(
    values: NDArray[np.float64], x: Callable[[float], float], y: Callable[[float], float]
) -> str:
    """A line through the points, with gaps; a lone point is a short line."""
    known = np.flatnonzero(np.isfinite(values))
    if not len(known):
        return ""
    # Ticks may be further apart than points: a gap is wider than usual.
    usual = median(np.diff(known)) if len(known) > 1 else 1.0
    words = []
    for order, index in enumerate(known):
        new = order == 0 or index - known[order - 1] > 3 * usual
        alone = new and (order + 1 == len(known) or known[order + 1] - index > 3 * usual)
        point = f"{x(index / max(1, len(values) - 1)):.1f} {y(float(values[index])):.1f}"
        words.append(f"{'M' if new else 'L'}{point}{'h1' * bool(alone)}")
    return "".join(words)


_HTML: Mapping[type, Callable[..., str]] = {
    Heading: _heading_html, Text: _text_html, Items: _items_html, TextTable: _table_html,
    Graph: _graph_html,
}  # fmt: skip


# Markdown


def markdown_report(blocks: Sequence[ReportBlock]) -> str:
    """For a ticket: headings, tables and lists; graphs are rows of blocks."""
    texts = []
    for block in blocks:
        if isinstance(block, Heading):
            texts.append(f"{'#' * block.level} {_md(block.text)}")
        elif isinstance(block, Text):
            texts.append(f"**{_md(block.text)}**" if block.is_alert else _md(block.text))
        elif isinstance(block, Items):
            texts.append(_md_items(block))
        elif isinstance(block, Graph):
            texts.append(_md_graph(block))
        else:
            texts.append(_md_table(block))
    return "\n\n".join(filter(None, texts)) + "\n"


def _md_items(block: Items) -> str:
    if block.is_code:
        return "\n".join(f"    {printable(text)}" for text in block.texts)
    return "\n".join(f"- {_md(text)}" for text in block.texts)


def _md_table(block: TextTable) -> str:
    columns = range(len(block.header))
    rule = "|".join("---:" if block.is_number(at) else "---" for at in columns)
    # Markdown has no table without a header: the first row is it.
    header = (block.header,) if any(block.header) else ()
    rows = [f"| {' | '.join(map(_md, cells))} |" for cells in (*header, *block.rows)]
    return "\n".join((rows[0], f"|{rule}|", *rows[1:]))


def _md_graph(block: Graph) -> str:
    title = f"{block.title}, {block.unit}"
    rows = []
    for name, values in block.curves:
        known = values[np.isfinite(values)]
        if len(known):
            least, most = float(known.min()), float(known.max())
            rows.append((name, f"{least:.4g}", f"{most:.4g}", _block_text(values, most)))
    if not rows:
        return _md(f"{title}: no values")
    return _md_table(
        TextTable((title, "least", "most", " to ".join(block.ends)), tuple(rows), (1, 3))
    )


def _block_text(values: NDArray[np.float64], most: float) -> str:
    """Blocks from 0 to `most`, each the largest value of its section; blanks are gaps.

    A section has no value if ticks are further apart than sections: the value before it goes on,
    for three times their usual distance.
    """
    at = np.flatnonzero(np.isfinite(values))
    reach = 3 * median(np.diff(at)) if len(at) > 1 else 0.0
    text = ""
    for section in np.array_split(np.arange(len(values)), min(_MD_BLOCKS, len(values))):
        known = values[section][np.isfinite(values[section])]
        before, after = at[at < section[0]], at[at > section[-1]]
        if not len(known) and len(before) and len(after) and after[0] - before[-1] <= reach:
            known = values[before[-1:]]
        share = float(known.max()) / most if len(known) and most > 0 else 0.0
        text += BLOCKS[round(max(0.0, share) * (len(BLOCKS) - 1))] if len(known) else " "
    return text


# Words that GitHub and others make links or mentions of, in escaped text too, but not in code.
_LINKS = re.compile(r"[^\s|]*(?:@|://|www\.|mailto:|xmpp:|#\d|\bGH-\d)[^\s|]*", re.IGNORECASE)


def _md(text: str) -> str:
    """Text in which Markdown and HTML find no markup, links and mentions."""
    cleaned, text, at = printable(text), "", 0
    for word in _LINKS.finditer(cleaned):
        fence = "`" * (1 + max(map(len, re.findall("`+", word[0])), default=0))
        pad = " " * (len(fence) > 1)
        text += f"{_md_escaped(cleaned[at : word.start()])}{fence}{pad}{word[0]}{pad}{fence}"
        at = word.end()
    return text + _md_escaped(cleaned[at:])


def _md_escaped(text: str) -> str:
    return escape(re.sub(r"([\\`*_{}\[\]()#+!|~-])", r"\\\1", text), quote=False)
