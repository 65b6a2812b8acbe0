"""§5: training."""

from annotated.training.loss import label_smoothed_loss
from annotated.training.schedule import learning_rate
from annotated.training.trainer import Trainer, TrainingConfig, Update
from annotated.training.world import World
from annotated.translation.checkpoints import load_checkpoint, save_checkpoint

__all__ = [
    "Trainer",
    "TrainingConfig",
    "Update",
    "World",
    "label_smoothed_loss",
    "learning_rate",
    "load_checkpoint",
    "save_checkpoint",
]
