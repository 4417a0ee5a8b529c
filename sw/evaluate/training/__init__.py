# SPDX-License-Identifier: BSD-2-Clause
"""Small models and data sets to train with: for demonstrations and measurements of the layers.

`Model.gradients(parameters, batch)` gives gradients by key; `Batches` gives each worker its samples. What is
here is NumPy; `torch` has what needs it, and `loop` trains in one process.
"""

from ...layers.parameters import Floats, Gradients, Parameters, count_of, flatten, unflatten
from .data import Batch, Batches, Dataset, digits, zipf_documents
from .loop import Trainer, model_of, train
from .models import MLP, EmbeddingClassifier, Model

__all__ = [
    "MLP", "Batch", "Batches", "Dataset", "EmbeddingClassifier", "Floats", "Gradients", "Model", "Parameters",
    "Trainer", "count_of", "digits", "flatten", "model_of", "train", "unflatten", "zipf_documents",
]  # fmt: skip
