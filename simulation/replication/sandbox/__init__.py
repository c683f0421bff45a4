"""One isolated command: a pure function of files, command and limits to exit status, output and files."""
