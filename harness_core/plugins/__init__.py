"""Plugins: each is a function ``install(harness)`` that stands at event points of the kernel.

A plugin may import the kernel; the kernel knows no plugin.
"""
