"""The way back through reductions: every element that was reduced gets its share.

Source   torch/csrc/autograd/FunctionsManual.cpp
"""
