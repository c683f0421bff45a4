"""Language models that restore hidden functions: an agent with tools, a pipeline without them, and the helper behind two tools."""
