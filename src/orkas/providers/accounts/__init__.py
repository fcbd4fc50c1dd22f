"""Where credentials come from: keys of the environment, stored logins, tokens that are renewed."""
