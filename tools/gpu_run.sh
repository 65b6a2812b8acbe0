#!/bin/sh
# `annotated reproduce` on a borrowed GPU machine: it has PyTorch, a copy of this tree and little time, but no network
# and nothing of ours installed.
#
#   sh tools/gpu_run.sh MINUTES OUT [OPTION...]
#
# MINUTES  for all of it together. Take a minute and a half off the time the machine is yours: Python and CUDA start,
#          and a model that is being tested may run over.
# OUT      the folder that comes back. It gets one file, reproduction.tar.gz (under 16 MiB), written anew after each
#          record: if the machine goes away in between, what was there before can be fetched.
# OPTION   more for the command: `--commit HEX`, because a copy of the tree can't say where it is;
#          `--only step-base-bfloat16,multi30k-en-de`; `--device cpu` to rehearse.
#
# The package is imported from src. Beside it in the tree may lie, ignored by git (.git/info/exclude) and sent along:
#   .data/     corpora as `--data-dir` wants them: .data/multi30k/train.en.gz and so on; without, what needs them is skipped
#   .wheels/   wheels of packages that the machine lacks; without sacremoses one BLEU is computed afterwards:
#              tar xzf reproduction.tar.gz -C DIR && annotated reproduce --score --out DIR
#
# WORK, the folder for states and all else, is kept between calls as long as the machine is: a second call goes on.
set -eu

[ $# -ge 2 ] || { sed -n 's/^#   \(sh .*\)/usage: \1/p' "$0" >&2; exit 2; }
minutes=$1 out=$2
shift 2
root=$(cd "$(dirname "$0")/.." && pwd)
python=${PYTHON:-python3}
work=${WORK:-/tmp/annotated-reproduce}
export PYTHONPATH="$root/src" PYTHONUNBUFFERED=1 TOKENIZERS_PARALLELISM=false
mkdir -p "$out" "$work"

if ls "$root"/.wheels/*.whl > /dev/null 2>&1; then
    "$python" -m pip install -q --no-index --no-deps --no-compile --upgrade --target "$work/site" "$root"/.wheels/*.whl
    export PYTHONPATH="$PYTHONPATH:$work/site"
fi
if [ -d "$root/.data" ]; then
    export ANNOTATED_DATA="${ANNOTATED_DATA:-$root/.data}"
fi

# What is missing is said now, not by an experiment in the middle.
"$python" - <<'PYTHON'
import importlib
import sys

missing = []
for name in ("torch", "einops", "jaxtyping", "numpy", "tokenizers", "safetensors", "sacrebleu", "msgspec", "filelock", "typer", "tqdm"):
    try:
        importlib.import_module(name)
    except ImportError:
        missing.append(name)
if missing or sys.version_info < (3, 11):
    sys.exit(f"gpu_run: Python {sys.version.split()[0]} lacks {', '.join(missing) or 'nothing, but is too old'}")
import torch

if tuple(map(int, torch.__version__.split("+")[0].split(".")[:2])) < (2, 11):
    sys.exit(f"gpu_run: torch is {torch.__version__}; expected 2.11 or newer")
gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU"
print(f"Python {sys.version.split()[0]}, torch {torch.__version__}, {gpu}")
PYTHON

exec "$python" -m annotated reproduce --minutes "$minutes" --out "$work/run" --pack "$out/reproduction.tar.gz" "$@"
