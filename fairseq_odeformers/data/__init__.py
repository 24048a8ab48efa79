"""What training reads at run time."""
