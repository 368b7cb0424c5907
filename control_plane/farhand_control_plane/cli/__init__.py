"""The `farhand` command line. Hot verbs are dispatched before anything slow is imported."""
