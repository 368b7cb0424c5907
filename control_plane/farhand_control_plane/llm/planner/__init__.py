"""The offline planner: answers chat completions without a language model, and says so."""
