"""The embedded Postgres: a private server for one home, started and stopped by `up`."""
