"""The commands behind `mnemo`, each a thin door to the daemon. Nothing heavy is imported at their top."""
