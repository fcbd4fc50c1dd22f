"""The ground floor: values, files, processes and sockets. Knows no model and no session."""
