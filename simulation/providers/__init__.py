"""HTTP clients for language models: text in, text out.

One dialect per API (`openai`, `anthropic`), one transport with a total deadline and a byte limit, one retry policy.
Every way in which a call can fail is a class of `base`. Nothing here depends on the content of a prompt.

May import: nothing else of ours.

Without Django.
"""

from simulation.providers.base import CompletionFunction, Endpoint, ErrorClass, Message, Prompt, ProviderError

__all__ = ["CompletionFunction", "Endpoint", "ErrorClass", "Message", "Prompt", "ProviderError"]
