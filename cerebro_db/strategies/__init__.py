"""How rows reach the training loop: one module per strategy."""
