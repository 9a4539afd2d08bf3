"""The resident process: one per data folder, on a private socket, and the doors it opens."""
