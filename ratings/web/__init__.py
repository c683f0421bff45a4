"""The pages of studies: views and their forms.

One folder for each subject: `rater/`, `study/`, `results/`, `account/`. `decorators` decides who reaches a view; `jobs`
shows the progress of longer work. A view fetches what this user may see, validates a form, calls one function of another
package, and renders a page or a fragment.

May import: ratings.accounts, ratings.api, ratings.blinding, ratings.exchange, ratings.models, ratings.paper,
ratings.protocol, ratings.raters, ratings.rating, ratings.results, ratings.stats, ratings.studies,
ratings.templatetags, simulation.casts, simulation.jobs, simulation.lab, simulation.models, simulation.runs,
simulation.web, wetbench_site.
"""
