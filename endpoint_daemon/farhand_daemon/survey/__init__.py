"""What a machine finds out about itself, in a short process of its own."""
