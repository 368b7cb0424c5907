"""`farhand up`: the whole system on this computer as one process with its children."""
