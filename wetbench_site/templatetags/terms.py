"""`{% term "Kappa" %}`: a button that shows what the glossary says about a term, without JavaScript, once on a page."""

from django import template
from django.template import Context
from django.template.base import FilterExpression, Parser, Token
from django.template.loader import get_template

from wetbench_site.help.glossary import GlossaryError, Term, get_term

register = template.Library()


class TermNode(template.Node):
    """The button of one term. The second one on a page is left out: the term was explained above."""

    def __init__(self, term: Term) -> None:
        self.term = term

    def render(self, context: Context) -> str:
        # Stored in the request, because each included template has variables of its own. Text that is rendered without a
        # request, such as an item that is stored, has one reader's page for itself.
        request = context.get("request")
        if request is not None:
            shown: set[str] = request.__dict__.setdefault("terms_shown", set())
            if self.term.anchor in shown:
                return ""
            shown.add(self.term.anchor)
        return get_template("help/_term.html").render({"term": self.term})


@register.tag("term")
def parse_term(parser: Parser, token: Token) -> TermNode:
    """Return the node of a term. The name is a literal, so that an unknown term is an error when its template is loaded."""
    words = token.split_contents()[1:]
    expression: FilterExpression | None = parser.compile_filter(words[0]) if len(words) == 1 else None
    if expression is None or not isinstance(expression.var, str):
        raise template.TemplateSyntaxError('term needs the name of a term in quotes: {% term "Kappa" %}')
    try:
        return TermNode(get_term(str(expression.var)))
    except GlossaryError as error:
        raise template.TemplateSyntaxError(str(error)) from error
