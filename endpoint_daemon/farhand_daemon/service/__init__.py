"""The daemon as a service of its computer: what is registered, by whom, and how to undo it."""
