"""The command line: `tidelog <noun> <verb>`, one file per verb.

    app.py          the table of commands and the one place where an error becomes an exit code
    serve.py        the broker; imports no framework, so that it starts fast
    cluster/ config/ group/ log/ perf/ pipeline/ reassign/ topic/ transactions/    nouns with several verbs, a file each
    adopt.py consume.py delete_records.py demo.py elect.py export.py import_.py offsets.py produce.py    single commands

A verb is a function: its docstring opens the help, its parameters are the options, and its module's EXAMPLE ends the
help. Text is for people, `--format json` for programs; results go to stdout, everything else to stderr.
"""
