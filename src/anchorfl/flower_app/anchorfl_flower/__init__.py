"""anchorfl on Flower: the functions of the files' commands, with messages in the place of files."""
