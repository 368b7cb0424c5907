"""What lives in sessions: the Router, the Workers, their prompts, tools and renderings."""
