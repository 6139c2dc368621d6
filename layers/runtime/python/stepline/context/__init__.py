"""The context of a model request: its parts, its estimated size, and its reduction to fit."""
