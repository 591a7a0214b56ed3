"""A finding as a badge: a small SVG image with two fields, for a README or a model card."""

from __future__ import annotations

from html import escape

from epsilometer.report.gates.findings import NOT_CONVERGED, Finding, short

GREEN, RED, AMBER, BLUE, GREY = "#1a7f37", "#b42318", "#8a5a00", "#0b5cad", "#555555"
"""Each has a contrast of at least 4.5 with the white text."""

_NARROW, _WIDE = "ijl.,:;|!'()[] 1ftr", "mwMW@%≤≥"
HEIGHT, PADDING = 20, 6


def badge_svg(finding: Finding) -> str:
    """The claim and its verdict; without a claim the proven bound, or the estimate."""
    left, right, colour = badge_texts(finding)
    title = f"{left}: {right}"
    widths = [_width(text) + 2 * PADDING for text in (left, right)]
    total = sum(widths)
    fields = [
        _field(left, 0, widths[0], GREY),
        _field(right, widths[0], widths[1], colour),
    ]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{total}" height="{HEIGHT}" '
        f'viewBox="0 0 {total} {HEIGHT}" class="epsilometer-badge" '
        f'role="img" aria-label="{escape(title)}">\n'
        f"<title>{escape(title)}</title>\n"
        '<g font-family="Verdana,DejaVu Sans,sans-serif" font-size="11" text-anchor="middle">\n'
        f"{''.join(fields)}</g>\n</svg>\n"
    )


def badge_texts(finding: Finding) -> tuple[str, str, str]:
    """Left field, right field and colour."""
    claim = finding.claim
    if claim is None:
        return _shown(f"ε at {finding.at}"), *_without_claim(finding)
    left = f"ε at {claim.at}" if claim.promises_nothing else f"claimed ε at {claim.at}"
    if claim.epsilon is not None:
        left = f"ε ≤ {short(claim.epsilon)} at {claim.at}"
    if not finding.converged:
        return _shown(left), NOT_CONVERGED.lower(), GREY
    bad = claim.failed or claim.promises_nothing
    return _shown(left), claim.label, GREEN if claim.passed else RED if bad else AMBER


def _without_claim(finding: Finding) -> tuple[str, str]:
    if finding.proven_text is not None:
        return f"proven ε ≥ {finding.proven_text}", BLUE
    if not finding.converged:
        return NOT_CONVERGED.lower(), GREY
    if finding.estimate is None:
        return "not to be quoted", GREY
    low, _, high = finding.estimate
    return f"estimated {low:.3g} to {high:.3g}", BLUE


def _shown(text: str) -> str:
    return text.replace("delta = ", "δ=")


def _field(text: str, start: int, width: int, colour: str) -> str:
    middle = start + width / 2
    return (
        f'<rect x="{start}" width="{width}" height="{HEIGHT}" fill="{colour}"/>\n'
        f'<text x="{middle:g}" y="14" fill="#ffffff" textLength="{width - 2 * PADDING}">'
        f"{escape(text)}</text>\n"
    )


def _width(text: str) -> int:
    """About the width of the text in pixels; `textLength` makes it exact in any font."""
    return round(sum(4 if c in _NARROW else 10 if c in _WIDE else 7 for c in text))
