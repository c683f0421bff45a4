"""Import tasks of other benchmarks: read their files as bounded text, and write task folders of our own form.

Nothing of a source runs or is parsed on the host: its Python is parsed in a sandbox. Links are not followed, and the history and the configuration of a
Git repository are not used. An import writes everything or nothing.

* `reading`, `git_reading`: bounded reading of a folder, or of one commit.
* `tables`: the tables of the AutoExperiment format; `commands`: what its solutions run.
* `sources`: parsing in a sandbox, and functions by qualified name.
* `building`: task folders; `results`: what an import returns, and writing it.
"""
