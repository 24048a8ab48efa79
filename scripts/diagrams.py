#!/usr/bin/env python3
"""Write the diagrams of README and documentation, ``docs/diagrams/*.svg``.

A block has a function that draws its panel from top to bottom, with the numbers of its layout. The
function's docstring is the description in the file. It has the colours of GitHub's two themes.
Subscripts are characters of their own, because renderers other than browsers misplace shifted text.
"""

from collections.abc import Callable
from html import escape
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "diagrams"

# Stroke and fill in the light theme, then in the dark one.
COLOURS = {
    "text": ("none", "#1f2328", "none", "#f0f6fc"),
    ".head,.muted": ("none", "#59636e", "none", "#9198a1"),
    ".frame,.layer,.wire": ("#59636e", "none", "#9198a1", "none"),
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
.title{{font-size:20px;font-weight:600}}.index{{font-size:12px}}
rect,circle,path{{stroke-width:1.6;stroke-linejoin:round}}.frame{{stroke-dasharray:5 4}}
{LIGHT}
@media (prefers-color-scheme:dark){{{DARK}}}
</style>
<marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" \
markerUnits="userSpaceOnUse" orient="auto"><path class="head" d="M0 0L8 4L0 8z"/></marker>"""

WIDTH, HEIGHT, GAP = 232, 424, 12  # of a panel, and between panels
MIDDLE, LEFT, RIGHT = 116, 28, 204  # where the state runs in it, and connections beside it
START, LINE = 102, 20  # of the state, and from one line of text to the next

Lane = tuple[float, float, float]  # where the state and a connection run, and the width of boxes
LANE, EVOLVING = (MIDDLE, LEFT, 132), (162, 217, 94)  # EVOLVING is beside TransEvolve's scores


class Drawing:
    """The elements of a picture, in drawing order."""

    def __init__(self) -> None:
        self.elements: list[str] = []

    def text(self, x: float, y: float, *lines: str, kind: str = "label") -> None:
        """Lines of text in the middle x."""
        for number, line in enumerate(lines):
            at = f'x="{x:g}" y="{y + LINE * number:g}"'
            self.elements.append(f'<text class="{kind}" {at}>{escape(line)}</text>')

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
        return self.plus(x, y)

    def plus(self, x: float, y: float) -> float:
        """The sign of a sum; where it ends."""
        self.elements.append(f'<circle class="solver" cx="{x:g}" cy="{y:g}" r="9"/>')
        self.elements.append(f'<path class="wire" d="M{x - 5:g} {y:g}h10M{x:g} {y - 5:g}v10"/>')
        return y + 9

    def svg(self, width: float, height: float, shown: int, title: str, text: str) -> str:
        """The file, this many pixels wide on a page that does not give a size."""
        size = f'width="{shown}" height="{shown * height / width:.0f}" role="img"'
        root = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" {size}>'
        about = f"<title>{escape(title)}</title>\n<desc>{escape(' '.join(text.split()))}</desc>"
        return "\n".join([root, about, HEAD, *self.elements, "</svg>\n"])


def sublayer(d: Drawing, y: float, kind: str, text: str, gap: float, lane: Lane = LANE) -> float:
    """x + F(Norm(x)) from y on, with a gap between its parts; returns where it ends."""
    x, _, width = lane
    top = y + 1.5 * gap
    d.wire((x, y), (x, top))
    top = d.box("norm", top, "Norm", x=x, width=width) + 4
    end = d.box(kind, top, *text.splitlines(), x=x, width=width)
    return d.add(end, gap - 5, y + gap / 2, lane)


def transformer(d: Drawing) -> float:
    """The state x passes through two residual sub-layers: x + Attention(Norm(x)), then
    x + FFN(Norm(x)).
    """
    y = sublayer(d, START, "attention", "Attention", 30)
    return sublayer(d, y, "ffn", "FFN", 30)


def macaron(d: Drawing) -> float:
    """The state x passes through three residual sub-layers: x + 1/2 FFN_down(Norm(x)), then
    x + Attention(Norm(x)), then x + 1/2 FFN_up(Norm(x)).
    """
    y = sublayer(d, START, "ffn", "½ FFN down", 12)
    y = sublayer(d, y, "attention", "Attention", 12)
    return sublayer(d, y, "ffn", "½ FFN up", 12)


def transevolve(d: Drawing) -> float:
    """Once per block, its input gives the scores A_0 = Q K^T. At each of L depths, terms of the
    depth are added to them, and the state passes through x + Attention(Norm(x)) with these scores,
    then x + FFN(Norm(x)), with a full or random FFN. A norm ends the block.
    """
    x, _, width = lane = EVOLVING
    d.rectangle("frame", 5, 154, 222, 218)
    d.wire((x, START), (x, 156), arrow=False)
    d.wire((x, 122), (105, 122))
    d.dot(x, 122)
    d.wire((60, d.box("attention", 98, "scores", "A₀ = QKᵀ", x=60, width=90)), (60, 178))
    d.box("solver", 178, "A₀ + terms", "of depth l", x=57, width=98)
    d.wire((106, 211), (x - width / 2, 211))
    d.text(57, 256, "at each of", "L depths")
    y = sublayer(d, 156, "attention", "Attention", 10.5, lane)
    y = sublayer(d, y, "ffn", "FFN, full\nor random", 10.5, lane)
    d.wire((x, y), (x, 380))
    return d.box("norm", 380, "Norm", x=x, width=width)


def transject(d: Drawing) -> float:
    """E experts compute ELU(X U diag(sigma) V), where sigma comes from X_0. Their mixture, times
    alpha/L, is added to X. Then an FFN with orthogonal matrices, times alpha/L, is added. There
    are no norms.
    """
    d.text(184, 96, "σ from X₀")
    for x in (MIDDLE, 184):
        d.wire((x, START), (x, 124))
    for shift in (8, 4):
        d.rectangle("attention", 46 + shift, 132 - shift, 140, 68)
    y = d.box("attention", 132, "E experts: ELU", "of attention", "X U diag(σ) V", width=140)
    y = d.add(d.box("solver", y + 4, "mix, times α/L", width=140), 14, branch=111)
    d.wire((MIDDLE, y), (MIDDLE, y + 34))
    end = d.box("ffn", y + 34, "orthogonal FFN", width=140)
    return d.add(d.box("solver", end + 4, "times α/L", width=140), 14, branch=y + 14)


def node_transformer(d: Drawing) -> float:
    """In a loop, solver steps go from X(0) at t = 0 to X(1) at t = 1. Each evaluates
    dX/dt = Attention(Norm(X)) + FFN_t(Norm(X + Attention(Norm(X)))).
    """
    d.rectangle("frame", 10, 108, 212, 282)
    d.wire((MIDDLE, START), (MIDDLE, 142))
    y = d.box("attention", d.box("norm", 142, "Norm", width=104) + 4, "Attention", width=104)
    branch = y + 9
    y = d.add(y, 18, 130, (MIDDLE, 32, 104))
    d.wire((MIDDLE, y), (MIDDLE, y + 12))
    y = d.box("ffn", d.box("norm", y + 12, "Norm", width=104) + 4, "FFN(t)", width=104)
    y = d.add(y, 8, branch, (MIDDLE, 184, 104))
    d.wire((MIDDLE, y), (MIDDLE, 354))
    d.text(144, 345, "dX/dt")
    d.wire((MIDDLE + 66, 368), (RIGHT + 6, 368), (RIGHT + 6, 118), (MIDDLE, 118))
    d.text(140, 408, "X(1)")
    return d.box("solver", 354, "solver step")


def stage(d: Drawing, y: float, text: str) -> float:
    """What a Transformer layer adds, evaluated once, from y on; returns where it ends."""
    d.rectangle("layer", MIDDLE - 66, y, 132, 62)
    d.text(MIDDLE, y + 20, text)
    return 6 + branches(d, y + 28)


def branches(d: Drawing, y: float) -> float:
    """Attention and FFN side by side, from y on; returns where they end."""
    d.box("attention", y, "Attention", x=95, width=86)
    return d.box("ffn", y, "FFN", x=160, width=40)


def ode_transformer(d: Drawing) -> float:
    """One layer, with attention and an FFN, is evaluated twice: F_1 = F(y), then
    F_2 = F(y + F_1). The sum b_1 F_1 + b_2 F_2 is added to y. The weights b are fixed, learned or
    gated.
    """
    d.wire((MIDDLE, START), (MIDDLE, 116))
    first = stage(d, 116, "F₁ = F(y)")
    d.wire((MIDDLE, first), (MIDDLE, first + 14), arrow=False)
    d.dot(LEFT, first + 23)
    d.wire((LEFT, first + 23), (MIDDLE - 9, first + 23))
    y = d.plus(MIDDLE, first + 23)
    d.wire((MIDDLE, y), (MIDDLE, y + 11))
    y = stage(d, y + 11, "F₂ = F(y + F₁)")
    d.wire((MIDDLE, first + 7), (RIGHT, first + 7), (RIGHT, y + 44), (MIDDLE + 66, y + 44))
    d.dot(MIDDLE, first + 7)
    d.wire((MIDDLE, y), (MIDDLE, y + 11))
    y = d.box("solver", y + 11, "b₁F₁ + b₂F₂, b", "fixed, learned", "or gated")
    return d.add(y, 6, branch=109)


def diffeq_transformer(d: Drawing) -> float:
    """In each of L steps, x goes to two parallel branches, Attention(Norm(x)) and FFN(Norm(x)),
    whose sum, times 1/L, is added to x. All weights W(t) are functions of the time t = l/L.
    """
    d.rectangle("frame", 6, 168, 220, 188)
    d.text(179, 96, "t = l/L")
    d.wire((180, START), (180, 114))
    d.wire((180, d.box("solver", 114, "W(t)", x=180, width=76)), (180, 168))
    d.wire((MIDDLE, START), (MIDDLE, 194), arrow=False)
    for x, kind, text in ((68, "attention", "Attention"), (164, "ffn", "FFN")):
        d.wire((MIDDLE, 194), (x, 194), (x, 208))
        y = d.box(kind, d.box("norm", 208, "Norm", x=x, width=84) + 4, text, x=x, width=84)
        d.wire((x, y), (x, y + 18))
    y = d.box("solver", y + 18, "sum, times 1/L", width=180)
    d.text(182, 345, "L times")
    return d.add(y, 18, 181, (MIDDLE, 16, 180))


def pcformer(d: Drawing) -> float:
    """One layer is evaluated for F_1 and F_2. y + alpha (1 - alpha) F_1 + alpha F_2 is the
    prediction, followed by a norm. It is mixed with the history of all layers to z. F(z), followed
    by a norm, is mixed with the history to the output.
    """
    d.text(196, 96, "history")
    d.wire((MIDDLE, START), (MIDDLE, 112))
    y = stage(d, 112, "F₁, F₂")
    d.wire((MIDDLE, 106), (8, 106), (8, y + 22), (MIDDLE - 92, y + 22))
    d.dot(MIDDLE, 106)
    d.wire((MIDDLE, y), (MIDDLE, y + 8))
    y = d.box("solver", y + 8, "y + α(1−α)F₁ + αF₂", width=184)
    y = d.box("norm", y + 4, "Norm")
    d.wire((MIDDLE, y), (MIDDLE, y + 7))
    first = y + 21
    y = d.box("solver", y + 7, "mix of all layers", width=150)
    d.wire((MIDDLE, y), (MIDDLE, y + 7))
    y = d.box("norm", stage(d, y + 7, "F(z)") + 4, "Norm")
    d.wire((MIDDLE, y), (MIDDLE, y + 7))
    d.wire((218, START), (218, first), (MIDDLE + 75, first))
    d.wire((218, first), (218, y + 21), (MIDDLE + 75, y + 21))
    d.dot(218, first)
    return d.box("solver", y + 7, "mix of all layers", width=150)


def ot_transformer(d: Drawing) -> float:
    """In each of M steps with the same weights, x passes through all L layers, each with
    attention and an FFN, and a norm. The result F(x), times 1/M, is added to x.
    """
    d.rectangle("frame", 10, 108, 212, 282)
    d.wire((MIDDLE, START), (MIDDLE, 152))
    for shift in (8, 4):
        d.rectangle("panel", 50 + shift, 160 - shift, 132, 62)
    d.rectangle("panel", 50, 160, 132, 62)
    d.text(MIDDLE, 180, "L layers")
    y = d.box("norm", branches(d, 188) + 10, "Norm")
    d.text(146, y + 18, "F(x)")
    d.wire((MIDDLE, y), (MIDDLE, y + 26))
    y = d.add(d.box("solver", y + 26, "times 1/M"), 14, branch=134)
    d.wire((MIDDLE, y + 14), (RIGHT + 6, y + 14), (RIGHT + 6, 120), (MIDDLE, 120))
    d.dot(MIDDLE, y + 14)
    d.text(166, y + 36, "M times")
    d.text(136, 408, "x")
    d.text(146, 412, "M", kind="index")
    return y


def yuriiformer(d: Drawing) -> float:
    """A state x and a velocity v pass through each step: g = O(Norm(x + mu v)), then
    v' = Norm(beta v + gamma g) and x' = x + nu v'. O is attention in step 1 and the FFN in step 2.
    YuriiFormer has nu = 1, and TMMFormer learns nu.
    """
    x, v = EDGES
    d.text(v, 96, "v")
    d.wire((x, START), (x, 366), arrow=False)
    d.wire((v, START), (v, 272), arrow=False)
    for rail, end in ((x, MIDDLE - 9), (v, MIDDLE + 9)):
        d.dot(rail, 128)
        d.wire((rail, 128), (end, 128))
    d.text(160, 121, "times μ")
    y = d.plus(MIDDLE, 128)
    d.wire((MIDDLE, y), (MIDDLE, y + 14))
    y = d.box("norm", y + 14, "Norm", width=152) + 4
    d.rectangle("layer", 40, y, 152, 56)
    for middle, width, kind, oracle, step in (
        (88, 90, "attention", "Attention", "step 1"),
        (163, 54, "ffn", "FFN", "step 2"),
    ):
        d.text(middle, y + 18, step)
        d.box(kind, y + 25, oracle, x=middle, width=width)
    y += 56
    d.text(154, y + 19, "times γ")
    d.wire((MIDDLE, y), (MIDDLE, 263), arrow=False)
    d.wire((v, 272), (MIDDLE + 9, 272))
    d.text(164, 290, "times β")
    y = d.plus(MIDDLE, 272)
    d.wire((MIDDLE, y), (MIDDLE, 300))
    y = d.box("norm", 300, "Norm", width=152)
    d.wire((MIDDLE, y), (MIDDLE, 366), arrow=False)
    d.dot(MIDDLE, 344)
    d.wire((MIDDLE, 344), (v, 344), (v, HEIGHT - 8))
    d.wire((MIDDLE, 366), (x + 9, 366))
    d.text(78, 358, "times ν")
    return d.plus(x, 366)


# Where the state runs, of blocks with something beside it.
EDGES = (36, 204)
STATES = {transevolve: EVOLVING[0], yuriiformer: EDGES[0]}

# A block's name; in two lines, the solver's step that it is; and what its input is called.
Block = tuple[Callable[[Drawing], float], str, str, str, str]
BLOCKS: tuple[Block, ...] = (
    (transformer, "Transformer", "Lie-Trotter splitting:", "attention, then FFN", "x"),
    (macaron, "Macaron Net", "Strang-Marchuk splitting:", "half, full, half step", "x"),
    (
        node_transformer,
        "N-ODE Transformer",
        "ODE solve, t = 0 to 1,",
        "in adaptive or fixed steps",
        "X(0)",
    ),
    (transevolve, "TransEvolve", "scores once per block,", "evolving over depth", "x"),
    (ode_transformer, "ODE Transformer", "Runge-Kutta step:", "one layer, 2 to 4 times", "y"),
    (transject, "TransJect", "injective steps of α/L,", "orthogonal attention", "X"),
    (pcformer, "PCformer", "Runge-Kutta predictor,", "multistep corrector", "y"),
    (diffeq_transformer, "DiffEqFormer", "L Euler steps of 1/L,", "weights depend on time", "x"),
    (ot_transformer, "OT-Transformer", "M Euler steps, each", "through all L layers", "x₀"),
    (yuriiformer, "YuriiFormer", "Nesterov’s method, ν = 1;", "TMMFormer learns ν", "x"),
)


def panels(*blocks: Block, columns: int = 2, shown: int = 622) -> str:
    """The file with panels of blocks, in rows, shown so wide."""
    d, right, down = Drawing(), WIDTH + GAP, HEIGHT + GAP
    for number, (draw, name, *step, state) in enumerate(blocks):
        at = f"translate({number % columns * right} {number // columns * down})"
        d.elements.append(f'<g transform="{at}">')
        d.rectangle("panel", 1, 1, WIDTH - 2, HEIGHT - 2)
        d.text(MIDDLE, 28, name, kind="title")
        d.text(MIDDLE, 50, *step, kind="muted")
        x = STATES.get(draw, MIDDLE)
        d.text(x, 96, state)
        d.wire((x, draw(d)), (x, HEIGHT - 8))
        d.elements.append("</g>")
    width, height = columns * right - GAP, -(-len(blocks) // columns) * down - GAP
    text = " ".join(f"{name}: {draw.__doc__}" for draw, name, *_ in blocks)
    return d.svg(width, height, shown, ", ".join(block[1] for block in blocks), text)


def diagrams() -> dict[str, str]:
    """All files, by their names."""
    pairs = {f"{block[0].__name__}.svg": panels(BLOCKS[0], block) for block in BLOCKS[1:]}
    blocks = panels(*BLOCKS, columns=-(-len(BLOCKS) // 2), shown=1000)
    return {"blocks.svg": blocks, **pairs}


if __name__ == "__main__":
    for name, text in diagrams().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
