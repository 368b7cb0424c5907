"""The way to the control plane: proxies, names and addresses, and the network that changes."""
