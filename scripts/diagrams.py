#!/usr/bin/env python3
"""Write the diagrams of README and documentation, ``docs/diagrams/*.svg``.

A block has a function that draws its panel from top to bottom, with the numbers of its layout. The
function's docstring is the description in the file. Colours are those of GitHub's two themes.
"""

import re
from collections.abc import Callable
from html import escape
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "diagrams"

# Stroke and fill in the light theme, then in the dark one.
COLOURS = {
    "text": ("none", "#1f2328", "none", "#f0f6fc"),
    ".head,.muted": ("none", "#59636e", "none", "#9198a1"),
    ".frame,.wire": ("#59636e", "none", "#9198a1", "none"),
    ".panel": ("#d1d9e0", "#f6f8fa", "#3d444d", "#151b23"),
    ".norm": ("#818b98", "#e6eaef", "#656c76", "#2a313c"),
    ".attention": ("#0969da", "#ddf4ff", "#4493f8", "#10243e"),
    ".ffn": ("#1a7f37", "#dafbe1", "#3fb950", "#0f2d1c"),
    ".solver": ("#8250df", "#fbefff", "#ab7df8", "#271b42"),
}
LIGHT = "".join(f"{kind}{{stroke:{c[0]};fill:{c[1]}}}" for kind, c in COLOURS.items())
DARK = "".join(f"{kind}{{stroke:{c[2]};fill:{c[3]}}}" for kind, c in COLOURS.items())
HEAD = f"""\
<style>
text{{font:17px -apple-system,'Segoe UI',Helvetica,Arial,sans-serif;text-anchor:middle}}
.title{{font-size:20px;font-weight:600}}.small{{font-size:13px}}
rect,circle,path{{stroke-width:1.6;stroke-linejoin:round}}.frame{{stroke-dasharray:5 4}}
{LIGHT}
@media (prefers-color-scheme:dark){{{DARK}}}
</style>
<marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" \
markerUnits="userSpaceOnUse" orient="auto"><path class="head" d="M0 0L8 4L0 8z"/></marker>"""

WIDTH, HEIGHT, GAP = 232, 424, 12  # of a panel, and between panels
MIDDLE, LEFT, RIGHT = 116, 28, 204  # where the state runs in it, and connections beside it
START, LINE = 102, 20  # of the state, and from one line of text to the next
SHIFT = r'<tspan class="small" dy="{0}">\1</tspan><tspan dy="{1}">\2</tspan>'

Lane = tuple[float, float, float]  # where the state and a connection run, and the width of boxes
LANE, EVOLVING = (MIDDLE, LEFT, 132), (162, 215, 86)  # EVOLVING is beside TransEvolve's scores


class Drawing:
    """The elements of a picture, in the order in which they are drawn."""

    def __init__(self) -> None:
        self.elements: list[str] = []

    def text(self, x: float, y: float, *lines: str, kind: str = "label") -> None:
        """Lines of text in the middle x; ``_`` lowers the character after it, ``^`` raises it."""
        for number, line in enumerate(lines):
            line = re.sub(r"_(.)([^_^]*)", SHIFT.format(3, -3), escape(line))
            line = re.sub(r"\^(.)([^<]*)", SHIFT.format(-6, 6), line)
            at = f'x="{x:g}" y="{y + LINE * number:g}"'
            self.elements.append(f'<text class="{kind}" {at}>{line}</text>')

    def rectangle(self, kind: str, x: float, y: float, width: float, height: float) -> None:
        size = f'x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}"'
        corner = 12 if kind in ("panel", "frame") else 5
        self.elements.append(f'<rect class="{kind}" {size} rx="{corner}"/>')

    def box(self, kind: str, y: float, *lines: str, x: float = MIDDLE, width: float = 132) -> float:
        """A box of lines of text from y on, with its middle at x; returns where it ends."""
        height = LINE * len(lines) + (4 if kind == "norm" else 8)
        self.rectangle(kind, x - width / 2, y, width, height)
        self.text(x, y + height / 2 + 16 - LINE * len(lines) / 2, *lines)
        return y + height

    def wire(self, *points: tuple[float, float], arrow: bool = True) -> None:
        """A line through points, with an arrow at its end."""
        path = "L".join(f"{x:g} {y:g}" for x, y in points)
        end = ' marker-end="url(#arrow)"' if arrow else ""
        self.elements.append(f'<path class="wire" d="M{path}"{end}/>')

    def dot(self, x: float, y: float) -> None:
        self.elements.append(f'<circle class="head" cx="{x:g}" cy="{y:g}" r="3"/>')

    def add(self, y: float, gap: float, branch: float, lane: Lane = LANE) -> float:
        """A sum below a gap from y on, with what left the state at a branch; where it ends."""
        x, rail, _ = lane
        self.wire((x, y), (x, y + gap), arrow=False)
        y += gap + 9
        self.wire((x, branch), (rail, branch), (rail, y), (x - 9 if rail < x else x + 9, y))
        self.dot(x, branch)
        self.elements.append(f'<circle class="solver" cx="{x:g}" cy="{y:g}" r="9"/>')
        self.elements.append(f'<path class="wire" d="M{x - 5:g} {y:g}h10M{x:g} {y - 5:g}v10"/>')
        return y + 9

    def svg(self, width: float, height: float, scale: float, title: str, text: str) -> str:
        """The file, shown in ``scale`` times its size by a page that does not give a size."""
        size = f'width="{scale * width:.0f}" height="{scale * height:.0f}" role="img"'
        root = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" {size}>'
        about = f"<title>{escape(title)}</title>\n<desc>{escape(' '.join(text.split()))}</desc>"
        return "\n".join([root, about, HEAD, *self.elements, "</svg>\n"])


def sublayer(d: Drawing, y: float, kind: str, text: str, gap: float, lane: Lane = LANE) -> float:
    """x + F(Norm(x)) from y on, with a gap between its parts; returns where it ends."""
    x, _, width = lane
    top = y + 1.5 * gap
    d.wire((x, y), (x, top))
    end = d.box(kind, d.box("norm", top, "Norm", x=x, width=width) + 4, text, x=x, width=width)
    return d.add(end, gap - 5, y + gap / 2, lane)


def transformer(d: Drawing) -> float:
    """x + Attention(Norm(x)), then x + FFN(Norm(x))."""
    y = sublayer(d, START, "attention", "Attention", 30)
    return sublayer(d, y, "ffn", "FFN", 30)


def macaron(d: Drawing) -> float:
    """x + 1/2 FFN(Norm(x)), then x + Attention(Norm(x)), then x + 1/2 FFN'(Norm(x))."""
    y = sublayer(d, START, "ffn", "½ FFN", 12)
    y = sublayer(d, y, "attention", "Attention", 12)
    return sublayer(d, y, "ffn", "½ FFN′", 12)


def transevolve(d: Drawing) -> float:
    """Q K^T of the input, computed once, and terms of the depth are the scores in each of L layers
    x + Attention(Norm(x)), then x + FFN(Norm(x)), with a full or random FFN. A norm ends the block.
    """
    x, _, width = lane = EVOLVING
    d.rectangle("frame", 8, 158, 216, 206)
    d.wire((x, START), (x, 160), arrow=False)
    d.wire((x, 122), (105, 122))
    d.dot(x, 122)
    d.wire((60, d.box("attention", 98, "scores", "A_0 = QK^T", x=60, width=90)), (60, 184))
    d.box("solver", 184, "A_0 + A_1T^ℓ", "+ …", x=60, width=90)
    d.wire((105, 216), (x - width / 2, 216))
    d.text(60, 256, "in each of", "L layers")
    y = sublayer(d, 160, "attention", "Attention", 11, lane)
    d.text(68, 312, "full or", "random", kind="muted")
    y = sublayer(d, y, "ffn", "FFN", 11, lane)
    d.wire((x, y), (x, 374))
    return d.box("norm", 374, "Norm", x=x, width=width)


def transject(d: Drawing) -> float:
    """x + alpha/L ELU(x U diag(sigma) V), mixed over E experts; x + alpha/L FFN(x). No norm."""
    d.text(184, 96, "σ from x_0")
    for x in (MIDDLE, 184):
        d.wire((x, START), (x, 124))
    for shift in (8, 4):
        d.rectangle("attention", 46 + shift, 132 - shift, 140, 68)
    y = d.box("attention", 132, "E experts:", "linear attention", "ELU(xUσV)", width=140)
    y = d.add(d.box("solver", y + 4, "mix, times α/L", width=140), 14, branch=111)
    d.wire((MIDDLE, y), (MIDDLE, y + 34))
    end = d.box("ffn", y + 34, "orthogonal FFN", width=140)
    return d.add(d.box("solver", end + 4, "times α/L", width=140), 14, branch=y + 14)


def node_transformer(d: Drawing) -> float:
    """dX/dt = FFN_t(alpha X + Attention(X)), solved from t = 0 to 1 in adaptive steps. No norm."""
    d.rectangle("frame", 10, 114, 212, 262)
    d.wire((MIDDLE, START), (MIDDLE, 164))
    d.text(44, 186, "α")
    y = d.add(d.box("attention", 164, "Attention", width=112), 14, 146, (MIDDLE, 32, 112))
    d.wire((MIDDLE, y), (MIDDLE, 244))
    d.wire((MIDDLE, d.box("ffn", 244, "FFN_t", width=112)), (MIDDLE, 308))
    d.text(144, 294, "dX/dt")
    d.wire((MIDDLE + 66, 332), (RIGHT, 332), (RIGHT, 130), (MIDDLE, 130))
    d.text(140, 400, "X(1)")
    return d.box("solver", 308, "adaptive step,", "until t = 1")


def ode_transformer(d: Drawing) -> float:
    """y + b_1 F_1 + b_2 F_2, b fixed or of a gate, where F(x) is what a Transformer layer adds."""
    for start, end in ((START, 120), (212, 230), (286, 305)):
        d.wire((MIDDLE, start), (MIDDLE, end))
    for top, text in ((120, "F_1 = F(y)"), (230, "F_2 = F(y + F_1)")):
        d.box("norm", top, text)
        d.box("attention", top + 28, "Attention", x=91.5, width=83)
        d.box("ffn", top + 28, "FFN", x=159.5, width=45)
    d.add(176, 18, branch=110)
    d.wire((MIDDLE, 183), (RIGHT, 183), (RIGHT, 329), (MIDDLE + 66, 329))
    d.dot(MIDDLE, 183)
    d.dot(LEFT, 203)
    return d.add(d.box("solver", 305, "b_1F_1 + b_2F_2", "fixed or gated"), 15, branch=110)


# A block's name; in two lines, the solver's step that it is; and what its input is called.
Block = tuple[Callable[[Drawing], float], str, str, str, str]
BLOCKS: tuple[Block, ...] = (
    (transformer, "Transformer", "Lie–Trotter splitting:", "attention, then FFN", "x"),
    (macaron, "Macaron Net", "Strang splitting:", "half, full, half step", "x"),
    (transevolve, "TransEvolve", "scores once per block,", "evolving over depth", "x"),
    (transject, "TransJect", "injective steps of α/L,", "orthogonal attention", "x"),
    (node_transformer, "N-ODE Transformer", "adaptive ODE solve", "from t = 0 to t = 1", "X(0)"),
    (ode_transformer, "ODE Transformer", "Runge–Kutta step:", "one layer, 2 to 4 times", "y"),
)


def panels(*blocks: Block, columns: int = 2, scale: float = 1.3) -> str:
    """The file with panels of blocks, in rows."""
    d, right, down = Drawing(), WIDTH + GAP, HEIGHT + GAP
    for number, (draw, name, *step, state) in enumerate(blocks):
        at = f"translate({number % columns * right} {number // columns * down})"
        d.elements.append(f'<g transform="{at}">')
        d.rectangle("panel", 1, 1, WIDTH - 2, HEIGHT - 2)
        d.text(MIDDLE, 28, name, kind="title")
        d.text(MIDDLE, 50, *step, kind="muted")
        x = EVOLVING[0] if draw is transevolve else MIDDLE
        d.text(x, 96, state)
        d.wire((x, draw(d)), (x, HEIGHT - 8))
        d.elements.append("</g>")
    width, height = columns * right - GAP, len(blocks) // columns * down - GAP
    text = " ".join(f"{name}: {draw.__doc__}" for draw, name, *_ in blocks)
    return d.svg(width, height, scale, ", ".join(block[1] for block in blocks), text)


def workflow() -> str:
    """The file with the commands from raw text to a report, and what goes in and out of each."""
    steps = (
        ("prepare", ("raw text",), ("binarised data", "and dictionaries")),
        ("check", ("architectures,", "yours as well"), ("properties hold:", "causality, caches")),
        ("compare", ("data and", "architectures"), ("equal parameters,", "tuned, over seeds")),
        ("report", ("runs",), ("a page of scores", "with intervals")),
    )
    d = Drawing()
    d.rectangle("panel", 1, 1, 718, 218)
    for x, (command, before, after) in zip((93, 271, 449, 627), steps):
        d.text(x, 54 - LINE * (len(before) - 1), *before)
        d.wire((x, 62), (x, 86))
        d.rectangle("solver", x - 58, 86, 116, 44)
        d.text(x, 115, command, kind="title")
        d.wire((x, 130), (x, 154))
        d.text(x, 174, *after)
        if x > 93:
            d.wire((x - 120, 108), (x - 58, 108))
    text = " ".join(f"{name}: {' '.join(a)} -> {' '.join(b)}." for name, a, b in steps)
    return d.svg(720, 220, 1.15, "prepare, check, compare, report", text)


def diagrams() -> dict[str, str]:
    """All files, by their names."""
    pairs = {f"{block[0].__name__}.svg": panels(BLOCKS[0], block) for block in BLOCKS[1:]}
    blocks = panels(*BLOCKS, columns=3, scale=1.15)
    return {"blocks.svg": blocks, "workflow.svg": workflow(), **pairs}


if __name__ == "__main__":
    for name, text in diagrams().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
