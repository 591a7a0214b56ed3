"""A finding as a badge: a small SVG image with two fields, for a README or a model card."""

from __future__ import annotations

from html import escape

from epsilometer.judgement.verdict import Outcome
from epsilometer.report.gates.findings import NOT_CONVERGED, Finding, short

GREEN, RED, AMBER, BLUE, GREY = "#1a7f37", "#b42318", "#8a5a00", "#0b5cad", "#555555"
"""Each has a contrast of at least 4.5 with the white text."""

COLOURS = {Outcome.PASS: GREEN, Outcome.FAIL: RED, Outcome.NO_PROMISE: RED}

_NARROW, _WIDE = "ijl.,:;|!'()[] 1ftr", "mwMW@%≤≥"
HEIGHT, PADDING = 20, 6


def badge_svg(finding: Finding) -> str:
    """The claim and its verdict; without a claim the proven bound, or the estimate."""
    left, right, colour = badge_texts(finding)
    title, fields, start = escape(f"{left}: {right}"), "", 0
    for text, fill in ((left, GREY), (right, colour)):
        width = _width(text)
        total = width + 2 * PADDING
        fields += (
            f'<rect x="{start}" width="{total}" height="{HEIGHT}" fill="{fill}"/>\n'
            f'<text x="{start + total / 2:g}" y="14" fill="#ffffff" textLength="{width}">'
            f"{escape(text)}</text>\n"
        )
        start += total
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{start}" height="{HEIGHT}" '
        f'viewBox="0 0 {start} {HEIGHT}" class="epsilometer-badge" '
        f'role="img" aria-label="{title}">\n<title>{title}</title>\n'
        '<g font-family="Verdana,DejaVu Sans,sans-serif" font-size="11" text-anchor="middle">\n'
        f"{fields}</g>\n</svg>\n"
    )


def badge_texts(finding: Finding) -> tuple[str, str, str]:
    """Left field, right field and colour."""
    verdict, left = finding.verdict, "ε"
    if finding.claimed is not None:
        left = f"ε ≤ {short(finding.claimed)}"
    elif verdict is not None and verdict.outcome is not Outcome.NO_PROMISE:
        left = "claimed ε"
    left = f"{left} at {finding.where.replace('delta = ', 'δ=')}"
    if verdict is None and finding.proven_text is not None:
        return left, f"proven ε ≥ {finding.proven_text}", BLUE
    if not finding.converged:
        return left, NOT_CONVERGED.lower(), GREY
    if verdict is not None:
        return left, verdict.label, COLOURS.get(verdict.outcome, AMBER)
    if finding.estimate is None:
        return left, "not to be quoted", GREY
    low, _, high = finding.estimate
    return left, f"estimated {low:.3g} to {high:.3g}", BLUE


def _width(text: str) -> int:
    """About the width of the text in pixels; `textLength` makes it exact in any font."""
    return round(sum(4 if c in _NARROW else 10 if c in _WIDE else 7 for c in text))
