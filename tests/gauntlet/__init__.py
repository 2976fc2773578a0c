"""The gauntlet: mistakes planted into the product's code, to show that its tests and its simulator find them.

`mistakes` is the table. Each entry names a function and says which of its text is replaced by what; `planting` compiles
the changed function and puts its code in the place of the right one, for as long as a `with` lasts. The product has no
switches. A function that no longer has the text fails loudly: the entry must follow the code.

    make gauntlet                    every mistake, found by how many seeds and by which tests
    python -m tests.gauntlet --list  what is planted
"""
