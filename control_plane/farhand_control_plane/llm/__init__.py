"""Talking to a model: the client of any OpenAI-compatible service, and the offline planner."""
