// Everything is forced in front of the file: see cuemu.h.
#pragma once
