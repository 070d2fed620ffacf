"""What stands above every screen while a change is applied but not kept, and what became of it."""

from __future__ import annotations

from nftop.model.change import Outcome, Receipt
from nftop.render.base.line import Line, Span, Tone, crop, line, paragraph

# What the operator asked for, so that no screen has to go on saying it.
_AS_ASKED: tuple[Outcome, ...] = ("kept",)
_MOST_LINES = 3


def applying_lines(width: int) -> list[Line]:
    """While the guard writes."""
    return [crop(line(Span(" APPLYING ", Tone.BADGE), " the guard writes and reads back"), width)]


def unkept_lines(number: int | None, left_s: int, width: int) -> list[Line]:
    """While nobody has said whether it stays: the keys, and how long there is time for them.

    Once the time is up no key can keep it: the guard is taking it back.
    """
    which = "" if number is None else f" {number}"
    if left_s <= 0:
        head = f" CHANGE{which} WAS NOT KEPT "
        return [crop(line(Span(head, Tone.BADGE), " the guard takes it back"), width)]
    keys = line(Span("K", Tone.TITLE), " keep   ", Span("u", Tone.TITLE), " take back")
    head = f" CHANGE{which} IS NOT KEPT: taken back in {left_s} s "
    return [crop(line(Span(head, Tone.BADGE), "  ", keys), width)]


def settling_lines(word: str, width: int) -> list[Line]:
    """While it is being kept or taken back."""
    return [crop(line(Span(f" {word} ", Tone.BADGE), " the guard is at it"), width)]


def outcome_lines(receipt: Receipt, width: int) -> list[Line]:
    """What became of it, until Esc; none where it is as it was asked for."""
    if receipt.outcome in _AS_ASKED:
        return []
    lead = line(Span(f" {receipt.outcome.upper()} ", Tone.BADGE), " ")
    text = "; ".join(receipt.sentences)
    return [crop(row, width) for row in paragraph(f"{text} (Esc)", width, lead=lead)[:_MOST_LINES]]


def outcome_text(receipt: Receipt) -> str:
    """The same in a line."""
    return f"{receipt.outcome}: {'; '.join(receipt.sentences)}"
