"""The client side of the daemon's private socket: standard library only, and as little of that as will do."""
