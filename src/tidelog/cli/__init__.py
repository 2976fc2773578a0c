"""The command line: `tidelog <noun> <verb>`, one file per verb.

    app.py          the table of commands and the one place where an error becomes an exit code
    serve.py        the broker; imports no framework, so that it starts fast
    directories     nouns, with a file for each of their verbs: cluster/, group/, pipeline/ and others
    other modules   single commands: adopt.py, consume.py, doctor.py, produce.py and others

A verb is a function: its docstring opens the help, its parameters are the options, and its module's EXAMPLE ends the
help. Text is for people, `--format json` for programs; results go to stdout, everything else to stderr.
"""
