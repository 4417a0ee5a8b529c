# SPDX-License-Identifier: BSD-2-Clause
"""Small models and data sets to train with, in NumPy: for demonstrations and measurements of the layers.

`Model.gradients(parameters, batch)` gives gradients by key; `Batches` gives each worker its samples.
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
from .models import CNN, MLP, EmbeddingClassifier, Model, SoftmaxRegression
from .momentum import Momentum
from .transformer import Transformer

__all__ = [
    "CNN",
    "MLP",
    "Batch",
    "Batches",
    "Dataset",
    "EmbeddingClassifier",
    "Floats",
    "Gradients",
    "Model",
    "Momentum",
    "Parameters",
    "RowSparse",
    "SoftmaxRegression",
    "Transformer",
    "copy_of",
    "count_of",
    "digits",
    "flatten",
    "shapes_of",
    "unflatten",
    "zipf_documents",
]
