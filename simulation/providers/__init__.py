"""HTTP clients for language models: text in, text out.

One dialect per API (`openai`, `anthropic`), one transport with a total deadline and a byte limit, one retry policy.
Every way in which a call can fail is a class of `base`. Nothing here depends on the content of a prompt.

May import: nothing else of ours.

Without Django.
"""

from simulation.providers.base import Endpoint, ErrorClass, Message, Prompt, ProviderError, Speaker

__all__ = ["Endpoint", "ErrorClass", "Message", "Prompt", "ProviderError", "Speaker"]
