"""How our own programs talk to a server: the API from outside, a conversation to its end."""
