"""Peak memory of all that is done to two large files, which it makes, before training.

python tests/data/streaming.py FOLDER MEGABYTES STAGE…

Prints one JSON document: how large the text of both files is, and how much more than at the start
the process has held after each stage, in bytes. Stages: "read" and clean; "learn" a vocabulary;
"write" the ids of all pieces to a file; "hold" all pairs in a list, to show that holding them would
be seen. test_text.py and test_id_file.py run it on a few megabytes; with ANNOTATED_STREAM_MB=200
they do on many.
"""

import gzip
import json
import random
import sys
import time
from pathlib import Path
from string import ascii_lowercase

from annotated.data.id_file import write_ids
from annotated.data.text import Cleaning, Pairs, texts
from annotated.data.tokenizer import Tokenizer
from annotated.recipes.task import as_ids


def peak() -> int:
    """The most memory this process has held, in bytes.

    Linux's count of it. That of resource.getrusage() starts from the peak of the process that
    started this one, which may be pytest's.
    """
    status = Path("/proc/self/status").read_text()
    return 1024 * int(status.partition("VmHWM:")[2].split()[0])


def write(folder: Path, megabytes: int) -> tuple[Path, Path]:
    """A plain and a compressed file, half a megabyte of different lines over and over."""
    rng = random.Random(0)
    words = ["".join(rng.choices(ascii_lowercase, k=3 + i % 9)) for i in range(1999)]
    block = "".join(" ".join(rng.choices(words, k=19)) + "\n" for _ in range(3600)).encode()
    source, target = folder / "big.en", folder / "big.de.gz"
    with open(source, "wb") as plain, gzip.open(target, "wb", compresslevel=1) as packed:
        for _ in range(1 + megabytes * 500_000 // len(block)):
            plain.write(block)
            packed.write(block)
    return source, target


def main() -> None:
    folder, megabytes = Path(sys.argv[1]), int(sys.argv[2])
    source, target = write(folder, megabytes)
    pairs = Cleaning(max_words=100, max_ratio=9.0).of_texts(Pairs((source, target)))
    tokenizer = Tokenizer.train(["once"] * 2, 3)  # loads what every training loads
    report = {"text": 2 * source.stat().st_size}
    start, began = peak(), time.perf_counter()
    works = {
        "read": lambda: sum(1 for _ in pairs),
        "learn": lambda: Tokenizer.train(texts(pairs), 499),
        "write": lambda: write_ids(folder / "big.ids", as_ids(pairs, tokenizer)),
        "hold": lambda: list(pairs),
    }
    for stage in sys.argv[3:]:
        works[stage]()
        report[stage] = peak() - start
        report[f"{stage}_seconds"] = round(time.perf_counter() - began, 1)
    print(json.dumps(report | {"start": start, "pairs": pairs.counts.kept}))


if __name__ == "__main__":
    main()
