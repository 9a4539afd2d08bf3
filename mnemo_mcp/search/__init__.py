"""Search over episodes and memories in LanceDB: a projection of the store that can always be made anew."""
