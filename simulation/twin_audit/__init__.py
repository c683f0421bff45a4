"""The audit of planted errors: what finds them without scientific knowledge, and which texts reveal them.

`pairs` makes steps with and without an error; `detectors` and `learned_detector` score one step as a program without
knowledge of a laboratory could, and `detection` counts what they find; `texts` compares how often each text occurs;
`balance` counts fields and kinds, `reach` replicates, records and science, and `error_types` what an independent rule calls obvious
or subtle; `report` puts all of it into tables.

May import: simulation.casts, simulation.lab, simulation.offline.

Without Django.
"""
