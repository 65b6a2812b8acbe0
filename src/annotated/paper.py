"""The paper in numbers: its tables, its text, its sections, its equations.

Every value stands in *Attention Is All You Need* (Vaswani et al., 2017) and
tells where (`.where`). The version is arXiv v7, whose tables and numbers are
v5's; where the NIPS proceedings print another number, it is kept as well
(`TABLE_2_NIPS`, `Stated.nips`). A blank cell of the paper is None.

    BASE.d_model   BIG.dropout   TRAINING.warmup_steps   DECODING.beam
    TABLE_2["GNMT + RL"].en_de         TABLE_3["C d_ff=4096"].bleu
    STATED["5.1"]["source_tokens"].value        SECTIONS["3.2.1"].title
    STATED["5.1"].column("value")

`RUNS` and `RELEASED` also hold facts from elsewhere; each row names whence.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from html import escape
from math import pi
from types import MappingProxyType
from typing import Any, Generic, TypeVar

# --------------------------------------------------- how a table is kept


@dataclass(frozen=True, kw_only=True)
class Row:
    """One line of a table: typed values, and its cells as printed."""

    name: str
    where: str
    cells: tuple[tuple[str, str], ...] = field(repr=False)

    @property
    def printed(self) -> dict[str, str]:
        """Field -> text of its cell, for the cells that are not blank."""
        return dict(self.cells)


R = TypeVar("R", bound=Row)


@dataclass(frozen=True, eq=False, repr=False)
class Table(Mapping[str, R], Generic[R]):
    """Rows by name in the paper's order; a notebook shows them as a table."""

    where: str
    title: str
    columns: tuple[tuple[str, str], ...]  # (field, heading)
    rows: tuple[R, ...]

    def __getitem__(self, name: str) -> R:
        for row in self.rows:
            if row.name == name:
                return row
        known = ", ".join(self)
        raise KeyError(f"no {name!r} in {self.where}, which has: {known}")

    def __iter__(self) -> Iterator[str]:
        return (row.name for row in self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def column(self, name: str) -> dict[str, Any]:
        """One field of every row, by the row's name."""
        return {row.name: getattr(row, name) for row in self.rows}

    def __repr__(self) -> str:
        return as_text(self)

    def _repr_html_(self) -> str:
        return as_html(self)


def as_lines(table: Table[Any]) -> list[list[str]]:
    """The headings, then every row, as the texts of their cells."""
    names = [name for name, _ in table.columns]
    printed = [row.printed for row in table.rows]
    return [
        [heading for _, heading in table.columns],
        *([cells.get(name, "") for name in names] for cells in printed),
    ]


def as_text(table: Table[Any]) -> str:
    """The table in aligned columns."""
    lines = as_lines(table)
    widths = [max(map(len, cells)) for cells in zip(*lines, strict=True)]
    padded = ("  ".join(map(str.ljust, line, widths)) for line in lines)
    return "\n".join(line.rstrip() for line in padded)


def as_html(table: Table[Any]) -> str:
    """The table as HTML, its place and title as the caption."""

    def row(tag: str, line: list[str]) -> str:
        cells = (f"<{tag}>{escape(cell)}</{tag}>" for cell in line)
        return f"<tr>{''.join(cells)}</tr>"

    head, *body = as_lines(table)
    caption = escape(f"{table.title} ({table.where})")
    return (
        f"<table><caption>{caption}</caption>"
        f"<thead>{row('th', head)}</thead>"
        f"<tbody>{''.join(row('td', line) for line in body)}</tbody></table>"
    )


def _value(cell: str) -> int | float | str | None:
    """What a cell means: "" None, "65" 65, "100K" 100000, "26.30" 26.3."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?(?:e-?\d+)?)([KMπ]?)", cell)
    if match is None:
        return cell or None
    number, unit = match.groups()
    if unit == "π":
        return float(number) * pi
    if unit:
        return round(float(number) * {"K": 1_000, "M": 1_000_000}[unit])
    return int(number) if number.isdigit() else float(number)


def _values(
    kind: type[Row],
    cells: dict[str, str],
    first: Row | None,
    ditto: list[str],
) -> dict[str, Any]:
    """The typed values of one row; `first` is the table's first row."""
    texts = {f.name for f in fields(kind) if f.type is str}
    values: dict[str, Any] = {}
    for column, cell in cells.items():
        if cell == "←":
            values[column] = list(values.values())[-1]
        elif cell == "" and first and column in ditto:
            values[column] = getattr(first, column)
        else:
            values[column] = cell if column in texts else _value(cell)
    return values


def _table(
    kind: type[R],
    where: str,
    title: str,
    names: str,
    text: str,
    *,
    key: str = "{name}",
    place: Callable[[str], str] | None = None,
    ditto: str = "",
) -> Table[R]:
    """Read a table written as text: a line of headings, then the rows.

    names: the field of each column. key, place: a row's name, and where the
    row of that name stands. ditto: fields whose blanks mean "as in the first
    row". A cell "←" is one with its left neighbour.
    """
    lines = text.strip().splitlines()
    heads, *body = ([c.strip() for c in line.split("|")] for line in lines)
    columns = names.split()
    rows: list[R] = []
    for line in body:
        cells = dict(zip(columns, line, strict=True))
        name = key.format(**cells)
        row = {"where": place(name) if place else f"{where}, {name}"}
        row |= _values(kind, cells, rows[0] if rows else None, ditto.split())
        printed = tuple((c, cell) for c, cell in cells.items() if cell)
        rows.append(kind(**row | {"name": name}, cells=printed))
    headed = tuple(zip(columns, heads, strict=True))
    return Table(where, title, headed, tuple(rows))


# ------------------------------------- sections, equations and figures


@dataclass(frozen=True, kw_only=True)
class Section(Row):
    """A section: its number (or name), its title, its page's name."""

    title: str
    slug: str

    @property
    def stem(self) -> str:
        """Its page's file: 03-2-1-scaled-dot-product-attention."""
        chapter, *rest = self.name.split(".")
        if not chapter.isdigit():
            return self.slug
        return "-".join([chapter.zfill(2), *rest, self.slug])

    @property
    def in_nips(self) -> bool:
        """Is it in the text of the NIPS proceedings?"""
        return self.name not in ("6.3", "visualizations")


# The acknowledgements and the list of references assert nothing.
SECTIONS = _table(
    Section,
    "arXiv v5-v7",
    "Sections",
    "name title slug",
    """
§     | title                                  | slug
abstract | Abstract | 00-abstract
1     | Introduction                           | introduction
2     | Background                             | background
3     | Model Architecture                     | model-architecture
3.1   | Encoder and Decoder Stacks             | encoder-and-decoder-stacks
3.2   | Attention                              | attention
3.2.1 | Scaled Dot-Product Attention           | scaled-dot-product-attention
3.2.2 | Multi-Head Attention                   | multi-head-attention
3.2.3 | Applications of Attention in our Model | applications-of-attention
3.3   | Position-wise Feed-Forward Networks    | feed-forward-networks
3.4   | Embeddings and Softmax                 | embeddings-and-softmax
3.5   | Positional Encoding                    | positional-encoding
4     | Why Self-Attention                     | why-self-attention
5     | Training                               | training
5.1   | Training Data and Batching             | training-data-and-batching
5.2   | Hardware and Schedule                  | hardware-and-schedule
5.3   | Optimizer                              | optimizer
5.4   | Regularization                         | regularization
6     | Results                                | results
6.1   | Machine Translation                    | machine-translation
6.2   | Model Variations                       | model-variations
6.3   | English Constituency Parsing           | english-constituency-parsing
7     | Conclusion                             | conclusion
visualizations | Attention Visualizations | 08-attention-visualizations
""",
    place=lambda name: f"section {name}" if name[0].isdigit() else name,
)


@dataclass(frozen=True, kw_only=True)
class Equation(Row):
    """A formula of the paper; only three of them have a number."""

    title: str
    tex: str

    def _repr_latex_(self) -> str:
        return f"$$\n{self.tex}\n$$"


EQUATIONS = _table(
    Equation,
    "arXiv v5-v7",
    "Equations",
    "name where title tex",
    r"""
equation | place | title | formula
1 | section 3.2.1, equation (1) | Scaled dot-product attention |\
 \mathrm{Attention}(Q, K, V) =\
 \mathrm{softmax}\left(\frac{QK^\top}{\sqrt{d_k}}\right)V
multi-head | section 3.2.2 | Multi-head attention |\
 \mathrm{MultiHead}(Q, K, V) =\
 \mathrm{Concat}(\mathrm{head}_1, \dots, \mathrm{head}_h)\,W^O
head | section 3.2.2 | One head |\
 \mathrm{head}_i = \mathrm{Attention}(QW_i^Q, KW_i^K, VW_i^V)
2 | section 3.3, equation (2) | Position-wise feed-forward network |\
 \mathrm{FFN}(x) = \max(0,\, xW_1 + b_1)\,W_2 + b_2
sine | section 3.5 | Positional encoding, even channels |\
 PE_{(pos,\,2i)} = \sin\left(pos / 10000^{2i/d_\mathrm{model}}\right)
cosine | section 3.5 | Positional encoding, odd channels |\
 PE_{(pos,\,2i+1)} = \cos\left(pos / 10000^{2i/d_\mathrm{model}}\right)
3 | section 5.3, equation (3) | Learning rate |\
 lrate = d_\mathrm{model}^{-0.5} \cdot \min(step\_num^{-0.5},\
 step\_num \cdot warmup\_steps^{-1.5})
""".replace("\\\n", ""),
)


@dataclass(frozen=True, kw_only=True)
class Figure(Row):
    """A figure: what it shows; 3 to 5 show attention over a sentence."""

    shows: str
    sentence: str | None


FIGURES = _table(
    Figure,
    "arXiv v5-v7",
    "Figures",
    "name where shows sentence",
    """
figure | place | shows | sentence
1 | section 3 | the encoder and the decoder |
2 | section 3.2 | scaled dot-product and multi-head attention |
3 | visualizations | a dependency over a long distance |\
 It is in this spirit that a majority of American governments have passed\
 new laws since 2009 making the registration or voting process more\
 difficult .
4 | visualizations | two heads and what "its" refers to |\
 The Law will never be perfect , but its application should be just -\
 this is what we are missing , in my opinion .
5 | visualizations | two heads that do different work |\
 The Law will never be perfect , but its application should be just -\
 this is what we are missing , in my opinion .
""",
)


# --------------------------------------------- its authors and versions


@dataclass(frozen=True, kw_only=True)
class Author(Row):
    """An author, and where the paper says that he or she works."""

    at: str


AUTHORS = _table(
    Author,
    "title page",
    "Authors",
    "name at",
    """
author            | at
Ashish Vaswani    | Google Brain
Noam Shazeer      | Google Brain
Niki Parmar       | Google Research
Jakob Uszkoreit   | Google Research
Llion Jones       | Google Research
Aidan N. Gomez    | University of Toronto; work done at Google Brain
Łukasz Kaiser     | Google Brain
Illia Polosukhin  | none given; work done at Google Research
""",
)


@dataclass(frozen=True, kw_only=True)
class Version(Row):
    """A version, and its BLEU of the big model from English to French.

    `date` is arXiv's own, and that of the conference. The abstracts of v1 to
    v4 are known from those who quoted them, v6 is taken for the same as v5
    and v7, which agree; what else was not read is None.
    """

    date: str
    abstract: float | None
    table_2: float | None
    section_6_1: float | None


VERSIONS = _table(
    Version,
    "arXiv 1706.03762 and NIPS",
    "BLEU of the big model, English to French, by version",
    "name date abstract table_2 section_6_1",
    """
version | date       | abstract | Table 2 | section 6.1
v1      | 2017-06-12 | 41.0     |         |
v2      | 2017-06-19 | 41.0     |         |
v3      | 2017-06-20 | 41.0     |         |
v4      | 2017-06-30 | 41.0     |         |
NIPS    | 2017-12-04 | 41.0     | 41.0    | 41.0
v5      | 2017-12-06 | 41.8     | 41.8    | 41.0
v6      | 2023-07-24 | 41.8     | 41.8    | 41.0
v7      | 2023-08-02 | 41.8     | 41.8    | 41.0
""",
)
BIBTEX = r"""
@inproceedings{vaswani2017,
  author    = {Vaswani, Ashish and Shazeer, Noam and Parmar, Niki and
               Uszkoreit, Jakob and Jones, Llion and Gomez, Aidan N. and
               Kaiser, {\L}ukasz and Polosukhin, Illia},
  title     = {Attention Is All You Need},
  booktitle = {Advances in Neural Information Processing Systems 30},
  pages     = {5998--6008},
  year      = {2017},
  note      = {arXiv:1706.03762}
}
""".strip()


# ---------------------------------------------------------- Tables 1-4


@dataclass(frozen=True, kw_only=True)
class LayerType(Row):
    """Table 1: what a layer costs (n length, d width, k kernel, r reach)."""

    complexity: str
    sequential: str
    path: str


TABLE_1 = _table(
    LayerType,
    "section 4, Table 1",
    "Cost per layer, sequential operations, longest path",
    "name complexity sequential path",
    """
layer                       | complexity | sequential | path
Self-Attention              | O(n²·d)    | O(1)       | O(1)
Recurrent                   | O(n·d²)    | O(n)       | O(n)
Convolutional               | O(k·n·d²)  | O(1)       | O(logₖ(n))
Self-Attention (restricted) | O(r·n·d)   | O(1)       | O(n/r)
""",
)


@dataclass(frozen=True, kw_only=True)
class System(Row):
    """Table 2: BLEU on newstest2014 and training cost in FLOPs.

    `reference` is the number in arXiv's list. Each Transformer has one cost
    for both languages, printed once.
    """

    reference: int | None
    en_de: float | None
    en_fr: float | None
    flops_en_de: float | None
    flops_en_fr: float | None


_TABLE_2 = """
model                       | ref | En-De | En-Fr | FLOPs De | FLOPs Fr
ByteNet                     | 18  | 23.75 |       |          |
Deep-Att + PosUnk           | 39  |       | 39.2  |          | 1.0e20
GNMT + RL                   | 38  | 24.6  | 39.92 | 2.3e19   | 1.4e20
ConvS2S                     | 9   | 25.16 | 40.46 | 9.6e18   | 1.5e20
MoE                         | 32  | 26.03 | 40.56 | 2.0e19   | 1.2e20
Deep-Att + PosUnk Ensemble  | 39  |       | 40.4  |          | 8.0e20
GNMT + RL Ensemble          | 38  | 26.30 | 41.16 | 1.8e20   | 1.1e21
ConvS2S Ensemble            | 9   | 26.36 | 41.29 | 7.7e19   | 1.2e21
Transformer (base model)    |     | 27.3  | 38.1  | 3.3e18   | ←
Transformer (big)           |     | 28.4  | 41.8  | 2.3e19   | ←
"""


def _table_2(version: str, text: str) -> Table[System]:
    return _table(
        System,
        f"section 6.1, Table 2, {version}",
        "BLEU on newstest2014 and cost of training",
        "name reference en_de en_fr flops_en_de flops_en_fr",
        text,
    )


TABLE_2 = _table_2("arXiv v5-v7", _TABLE_2)
TABLE_2_NIPS = _table_2("NIPS", _TABLE_2.replace("41.8", "41.0"))


@dataclass(frozen=True, kw_only=True)
class Variation(Row):
    """Table 3: one model in full; `printed` is what the paper prints of it.

    Scores are of one model, its checkpoints not averaged, on newstest2013;
    perplexity is per BPE piece. `parameters` is in millions.
    """

    layers: int
    d_model: int
    d_ff: int
    heads: int
    d_k: int
    d_v: int
    dropout: float
    label_smoothing: float
    steps: int
    perplexity: float
    bleu: float
    parameters: int | None

    @property
    def positions(self) -> str:
        """Row E prints this as a sentence across the columns."""
        return "learned" if self.name.startswith("E ") else "sinusoidal"


TABLE_3 = _table(
    Variation,
    "section 6.2, Table 3",
    "Variations of the base model; where blank, they are like it",
    "name layers d_model d_ff heads d_k d_v dropout label_smoothing"
    " steps perplexity bleu parameters",
    """
row                  |N|d_model|d_ff|h |d_k|d_v|drop|ε  |step|PPL |BLEU|10⁶
base                 |6|512    |2048|8 |64 |64 |0.1 |0.1|100K|4.92|25.8|65
A heads=1            | |       |    |1 |512|512|    |   |    |5.29|24.9|
A heads=4            | |       |    |4 |128|128|    |   |    |5.00|25.5|
A heads=16           | |       |    |16|32 |32 |    |   |    |4.91|25.8|
A heads=32           | |       |    |32|16 |16 |    |   |    |5.01|25.4|
B d_k=16             | |       |    |  |16 |   |    |   |    |5.16|25.1|58
B d_k=32             | |       |    |  |32 |   |    |   |    |5.01|25.4|60
C layers=2           |2|       |    |  |   |   |    |   |    |6.11|23.7|36
C layers=4           |4|       |    |  |   |   |    |   |    |5.19|25.3|50
C layers=8           |8|       |    |  |   |   |    |   |    |4.88|25.5|80
C d_model=256        | |256    |    |  |32 |32 |    |   |    |5.75|24.5|28
C d_model=1024       | |1024   |    |  |128|128|    |   |    |4.66|26.0|168
C d_ff=1024          | |       |1024|  |   |   |    |   |    |5.12|25.4|53
C d_ff=4096          | |       |4096|  |   |   |    |   |    |4.75|26.2|90
D dropout=0.0        | |       |    |  |   |   |0.0 |   |    |5.77|24.6|
D dropout=0.2        | |       |    |  |   |   |0.2 |   |    |4.95|25.5|
D label_smoothing=0.0| |       |    |  |   |   |    |0.0|    |4.67|25.3|
D label_smoothing=0.2| |       |    |  |   |   |    |0.2|    |5.47|25.7|
E positions=learned  | |       |    |  |   |   |    |   |    |4.92|25.7|
big                  |6|1024   |4096|16|   |   |0.3 |   |300K|4.33|26.4|213
""",
    ditto="layers d_model d_ff heads d_k d_v dropout label_smoothing steps",
)
BASE = TABLE_3["base"]
BIG = TABLE_3["big"]


@dataclass(frozen=True, kw_only=True)
class Parser(Row):
    """Table 4: F1 of a parser on section 23 of the Wall Street Journal."""

    parser: str
    reference: int | None
    training: str
    f1: float


TABLE_4 = _table(
    Parser,
    "section 6.3, Table 4, arXiv v5-v7",
    "Parsing English, F1 on section 23",
    "parser reference training f1",
    """
parser                         | ref | training                 | F1
Vinyals & Kaiser et al. (2014) | 37  | WSJ only, discriminative | 88.3
Petrov et al. (2006)           | 29  | WSJ only, discriminative | 90.4
Zhu et al. (2013)              | 40  | WSJ only, discriminative | 90.4
Dyer et al. (2016)             | 8   | WSJ only, discriminative | 91.7
Transformer (4 layers)         |     | WSJ only, discriminative | 91.3
Zhu et al. (2013)              | 40  | semi-supervised          | 91.3
Huang & Harper (2009)          | 14  | semi-supervised          | 91.3
McClosky et al. (2006)         | 26  | semi-supervised          | 92.1
Vinyals & Kaiser et al. (2014) | 37  | semi-supervised          | 92.1
Transformer (4 layers)         |     | semi-supervised          | 92.7
Luong et al. (2015)            | 23  | multi-task               | 93.0
Dyer et al. (2016)             | 8   | generative               | 93.3
""",
    key="{parser}, {training}",
)


# ---------------------------------------------- numbers of the running text


@dataclass(frozen=True, kw_only=True)
class Stated(Row):
    """A number (or a name) of the running text, with its unit."""

    value: int | float | str
    unit: str

    @property
    def section(self) -> str:
        """The key of its section in `SECTIONS`."""
        return self.where.removeprefix("section ").split(",")[0]

    @property
    def nips(self) -> int | float | str | None:
        """The value in the NIPS proceedings; None if it is not there."""
        if not SECTIONS[self.section].in_nips:
            return None
        return _NIPS.get((self.section, self.name), self.value)


# The only number of the text that the two versions print differently.
_NIPS = {("abstract", "bleu_en_fr"): 41.0}

_TEXT = _table(
    Stated,
    "arXiv v5-v7",
    "Numbers of the running text",
    "where name value unit",
    """
place                     | name               | value        | unit
abstract                  | bleu_en_de         | 28.4         | BLEU, big
abstract                  | bleu_en_fr         | 41.8         | BLEU, big
abstract                  | gain_en_de         | 2            | over
abstract                  | days               | 3.5          | days
abstract                  | gpus               | 8            | GPUs
section 1                 | hours              | 12           | hours
section 1                 | gpus               | 8            | GPUs
section 1                 | gpu                | P100         |
section 3.1               | layers             | 6            | in each stack
section 3.1               | encoder_sublayers  | 2            | per layer
section 3.1               | decoder_sublayers  | 3            | per layer
section 3.1               | d_model            | 512          |
section 3.2.1, footnote 4 | score_mean         | 0            |
section 3.2.1, footnote 4 | score_variance     | d_k          |
section 3.2.2             | heads              | 8            |
section 3.2.2             | d_k                | 64           |
section 3.2.2             | d_v                | 64           |
section 3.2.3             | uses               | 3            | of attention
section 3.3               | d_model            | 512          |
section 3.3               | d_ff               | 2048         |
section 3.3               | kernel             | 1            | position
section 3.4               | tied               | 3            | uses
section 3.5               | wavelength_base    | 10000        |
section 3.5               | wavelength_from    | 2π           | positions
section 3.5               | wavelength_to      | 20000π       | positions
section 4                 | criteria           | 3            |
section 5.1               | pairs_en_de        | 4.5M         | pairs
section 5.1               | vocabulary_en_de   | 37000        | pieces, about
section 5.1               | pairs_en_fr        | 36M          | sentences
section 5.1               | vocabulary_en_fr   | 32000        | pieces
section 5.1               | source_tokens      | 25000        | a batch, about
section 5.1               | target_tokens      | 25000        | a batch, about
section 5.2               | gpus               | 8            | GPUs
section 5.2               | gpu                | P100         |
section 5.2               | base_step_seconds  | 0.4          | seconds
section 5.2               | base_steps         | 100000       | steps
section 5.2               | base_hours         | 12           | hours
section 5.2               | big_step_seconds   | 1.0          | seconds
section 5.2               | big_steps          | 300000       | steps
section 5.2               | big_days           | 3.5          | days
section 5.3               | beta1              | 0.9          |
section 5.3               | beta2              | 0.98         |
section 5.3               | epsilon            | 1e-9         |
section 5.3               | warmup_steps       | 4000         | steps
section 5.4               | kinds              | 3            | announced
section 5.4               | dropout            | 0.1          | base
section 5.4               | label_smoothing    | 0.1          |
section 6.1               | bleu_en_de         | 28.4         | BLEU, big
section 6.1               | gain_en_de         | 2.0          | more than
section 6.1               | bleu_en_fr         | 41.0         | BLEU, big
section 6.1               | cost_en_fr         | 0.25         | less than
section 6.1               | big_dropout_en_fr  | 0.1          |
section 6.1               | big_dropout        | 0.3          |
section 6.1               | base_averaged      | 5            | checkpoints
section 6.1               | checkpoint_minutes | 10           | minutes
section 6.1               | big_averaged       | 20           | checkpoints
section 6.1               | beam               | 4            |
section 6.1               | alpha              | 0.6          |
section 6.1               | extra_length       | 50           | tokens
section 6.1, footnote 5   | tflops_k80         | 2.8          | TFLOPS
section 6.1, footnote 5   | tflops_k40         | 3.7          | TFLOPS
section 6.1, footnote 5   | tflops_m40         | 6.0          | TFLOPS
section 6.1, footnote 5   | tflops_p100        | 9.5          | TFLOPS
section 6.2               | dev_set            | newstest2013 |
section 6.2               | one_head_loss      | 0.9          | BLEU
section 6.3               | layers             | 4            |
section 6.3               | d_model            | 1024         |
section 6.3               | sentences          | 40K          | WSJ, about
section 6.3               | sentences_semi     | 17M          | about
section 6.3               | vocabulary         | 16K          | WSJ only
section 6.3               | vocabulary_semi    | 32K          |
section 6.3               | tuning_section     | 22           | of WSJ
section 6.3               | test_section       | 23           | of WSJ
section 6.3               | extra_length       | 300          | tokens
section 6.3               | beam               | 21           |
section 6.3               | alpha              | 0.3          |
visualizations            | layer              | 5            | of 6
visualizations            | layers             | 6            |
visualizations            | first_head         | 5            | of 8
visualizations            | second_head        | 6            | of 8
""",
)
STATED: Mapping[str, Table[Stated]] = MappingProxyType(
    {
        section: Table(
            SECTIONS[section].where,
            "Numbers of the running text",
            _TEXT.columns,
            tuple(row for row in _TEXT.rows if row.section == section),
        )
        for section in dict.fromkeys(row.section for row in _TEXT.rows)
    }
)


def stated(name: str) -> tuple[Stated, ...]:
    """Every place of the text that states `name`, in the paper's order."""
    found = tuple(row for row in _TEXT.rows if row.name == name)
    if not found:
        known = ", ".join(sorted({row.name for row in _TEXT.rows}))
        raise KeyError(f"the text states no {name!r}; it states: {known}")
    return found


# The same numbers as typed objects. Their fields are names in `STATED`,
# which tells the place of each: stated("warmup_steps").


@dataclass(frozen=True, kw_only=True)
class Training:
    """How the translation models were trained."""

    where: str
    source_tokens: int
    target_tokens: int
    gpus: int
    gpu: str
    base_step_seconds: float
    base_steps: int
    base_hours: int
    big_step_seconds: float
    big_steps: int
    big_days: float
    beta1: float
    beta2: float
    epsilon: float
    warmup_steps: int
    dropout: float
    label_smoothing: float


@dataclass(frozen=True, kw_only=True)
class Decoding:
    """How they translated: averaged checkpoints, then beam search."""

    where: str
    base_averaged: int
    checkpoint_minutes: int
    big_averaged: int
    beam: int
    alpha: float
    extra_length: int


@dataclass(frozen=True, kw_only=True)
class Parsing:
    """What differs when the model parses English."""

    where: str
    layers: int
    d_model: int
    sentences: int
    sentences_semi: int
    vocabulary: int
    vocabulary_semi: int
    beam: int
    alpha: float
    extra_length: int


T = TypeVar("T", Training, Decoding, Parsing)


def _gather(kind: type[T], where: str, *sections: str) -> T:
    """Fill the fields of `kind` with what the sections state."""
    values: dict[str, Any] = {}
    for section in sections:
        values |= STATED[section].column("value")
    names = [f.name for f in fields(kind) if f.name != "where"]
    return kind(where=where, **{name: values[name] for name in names})


TRAINING = _gather(Training, "sections 5.1-5.4", "5.1", "5.2", "5.3", "5.4")
DECODING = _gather(Decoding, "section 6.1", "6.1")
PARSING = _gather(Parsing, "section 6.3, arXiv v5-v7", "6.3")


# ------------------------------------------------- behind and beside them


@dataclass(frozen=True, kw_only=True)
class Run(Row):
    """A training run whose cost Table 2 gives."""

    system: str
    days: int | float
    gpus: int
    gpu: str

    @property
    def flops(self) -> float:
        """Footnote 5: seconds x GPUs x what one GPU sustains."""
        tflops = STATED["6.1"][f"tflops_{self.gpu.lower()}"].value
        return self.days * 86_400 * self.gpus * float(tflops) * 1e12


# Only runs whose length and machine could be read in a source; [32] is the
# paper's reference for MoE (Shazeer et al., 2017).
RUNS = _table(
    Run,
    "the sources of Table 2's costs",
    "Training runs",
    "name system where days gpus gpu",
    """
run             |Table 2's row           |source          |days|n |GPU
base            |Transformer (base model)|section 5.2     |0.5 |8 |P100
big             |Transformer (big)       |section 5.2     |3.5 |8 |P100
GNMT + RL, En-De|GNMT + RL               |[32], tables 2-3|1   |96|K80
GNMT + RL, En-Fr|GNMT + RL               |[32], tables 2-3|6   |96|K80
MoE, En-De      |MoE                     |[32], tables 2-3|1   |64|K40
MoE, En-Fr      |MoE                     |[32], tables 2-3|6   |64|K40
""",
)


@dataclass(frozen=True, kw_only=True)
class Released(Row):
    """A fact of the code released three days after arXiv v1."""

    value: int | float | str


# These are not in the paper: see commit 3d9c62f2 of tensor2tensor. That the
# first two explain Table 3's parameter counts is an inference, not a claim
# of the authors.
RELEASED = _table(
    Released,
    "tensor2tensor 3d9c62f2",
    "What the released code did",
    "name where value",
    """
fact                  | file                                | value
embedding_rows        | data_generators/problem_hparams.py  | 40960
attention_projections | models/common_attention.py          | with biases
layer_norm_epsilon    | models/common_layers.py             | 1e-6
tokens_per_gpu        | models/transformer.py               | 4096
max_length            | models/transformer.py               | 256
""",
)
