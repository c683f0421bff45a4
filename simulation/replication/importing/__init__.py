"""Import the tasks of other benchmarks: read their files as text of limited size, and write task folders.

No code of a source runs. Its Python is parsed in a sandbox, and the host parses only what could be parsed there. Links are not followed. Of a Git
repository, the files of one commit are read, but neither its history nor its configuration. An import writes all tasks or none.

* `import_sources`: import a folder or a commit.
* `reading`, `git_reading`: read the files of a folder, or of a commit, with limits of number and size.
* `tables`: read the tables of the AutoExperiment format; `commands`: read the commands of its solutions.
* `sources`: parse modules in a sandbox, and find functions in them.
* `building`: build task folders; `results`: the result of an import, and writing it.
"""
