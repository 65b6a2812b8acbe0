#!/bin/bash
# Train on several machines under SLURM, from the repository's root:
#
#   sbatch --nodes 2 --gpus-per-node 8 tools/slurm.sh --recipe wmt14-en-de-base --out /shared/run
#
# One torchrun per machine starts one process per GPU. Without SLURM, the same on each machine by hand:
#
#   TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 torchrun --nnodes 2 --nproc-per-node 8 --rdzv-backend c10d --rdzv-endpoint FIRST:29500 \
#       --max-restarts 3 -m annotated train --resume --recipe … --out …
#
# A process that dies is started again, up to three times, and --resume goes on from the newest
# state. Two minutes before its time is up, the job writes a state; queue it again to go on.
# Machines need no shared disk: the first writes. But a restart may make another machine the first;
# then its states are looked for there, and the run is refused rather than begun anew.
#SBATCH --job-name=annotated
#SBATCH --ntasks-per-node=1
#SBATCH --signal=TERM@120
set -eu
first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
# After a restart each process must ask for the others' new addresses, not read the old ones.
export TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1
exec srun --kill-on-bad-exit=1 .venv/bin/torchrun \
    --nnodes "$SLURM_JOB_NUM_NODES" --nproc-per-node "${SLURM_GPUS_ON_NODE:-1}" \
    --rdzv-backend c10d --rdzv-id "$SLURM_JOB_ID" --rdzv-endpoint "$first:29500" \
    --max-restarts 3 -m annotated train --resume "$@"
