"""Hidden truths drawn by seed: `draws` reads an experiment's distributions, `truth_seeds` has the splits of seeds."""
