# SPDX-License-Identifier: BSD-2-Clause
"""Small models and data sets to train with: for demonstrations and measurements of the layers.

`Model.gradients(parameters, batch)` gives gradients by key; `Batches` gives each worker its samples. What is
here is NumPy; `torch` has what needs it, and `loop` trains in one process.
"""

from ...layers.parameters import (
    Floats,
    Gradients,
    Parameters,
    RowSparse,
    copy_of,
    count_of,
    flatten,
    shapes_of,
    unflatten,
)
from .data import Batch, Batches, Dataset, digits, zipf_documents
from .loop import Trainer, model_of, train
from .models import MLP, EmbeddingClassifier, Model

__all__ = [
    "MLP", "Batch", "Batches", "Dataset", "EmbeddingClassifier", "Floats", "Gradients", "Model", "Parameters",
    "RowSparse", "Trainer", "copy_of", "count_of", "digits", "flatten", "model_of", "shapes_of", "train",
    "unflatten", "zipf_documents",
]  # fmt: skip
