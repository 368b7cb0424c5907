"""What ``farhandd doctor`` looks at: this computer, the way to the control plane, the sandbox."""
