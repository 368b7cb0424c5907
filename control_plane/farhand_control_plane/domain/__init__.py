"""From an event to authorised work: pure values and rules. No I/O, no database, no framework."""
