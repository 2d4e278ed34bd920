"""A small, correct ACP agent on the standard library, with a fault for every check.

``mutant_agent.py`` beside this package runs it. It exists to show that the checks pass a correct
agent and catch a broken one; it shares no code with the kit.
"""
