"""One small process per running command: fork server, supervisor, and the daemon's side of them."""
