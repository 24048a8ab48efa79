"""What the models of several papers share."""
