"""Inline PTX: `asm` statements of CUDA C++ as C++ that a host compiler takes.

statements     finds them, and what their operands are bound to
instructions   reads the text between the quotes
translate      writes each instruction as a call of cuemu/ptx.h
"""
