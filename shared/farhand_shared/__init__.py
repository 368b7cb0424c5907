"""What the control plane and the daemon both know: ids, states, limits, the link and its codec."""
