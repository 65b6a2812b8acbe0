"""§5: training."""

from annotated.training.loss import label_smoothed_loss
from annotated.training.schedule import learning_rate
from annotated.training.trainer import Trainer, TrainingConfig, Update
from annotated.training.world import World

__all__ = [
    "Trainer",
    "TrainingConfig",
    "Update",
    "World",
    "label_smoothed_loss",
    "learning_rate",
]
